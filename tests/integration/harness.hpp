// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gaudi::test {

/// A child process's view of its test. Ranks are 0 .. size()-1; each is a process of its own.
class rank {
 public:
  rank(int id, int size, int socket) : id_(id), size_(size), socket_(socket) {}

  int id() const { return id_; }
  int size() const { return size_; }

  /// Called over and over while this rank waits for others, so that providers with manual progress
  /// go on serving them.
  void set_idle_work(std::function<void()> work) { idle_work_ = std::move(work); }

  /// Every rank gives a value and gets those of all, by rank. Throws when a rank is gone.
  std::vector<std::string> all_gather(const std::string& value);

  /// Returns when every rank has called it.
  void barrier() { all_gather({}); }

 private:
  int id_;
  int size_;
  int socket_;
  std::function<void()> idle_work_;
};

struct world {
  int ranks = 2;
  std::vector<std::pair<std::string, std::string>> environment{};
  std::chrono::seconds timeout{120};
};

/// Forks the ranks, runs `body` in each and adds a test failure for every rank that throws, fails
/// an expectation, is killed by a signal or is not done in time (it is killed then). A folder of
/// the stand-in's own (HLSIM_DIR) is made for the test. No thread may have been started before.
void run(const world& w, const std::function<void(rank&)>& body);

/// Name of the provider under test: TEST_PROVIDER, or gaudi.
std::string provider();
bool is_gaudi();
/// Whether FI_GAUDI_CORE has it carry the data over RDMA.
bool on_verbs();

/// Bytes that depend on a seed and their place.
std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t size);

/// Fails the test with the first place where the two differ.
void expect_same(const std::vector<std::byte>& expected, const std::vector<std::byte>& actual,
                 const std::string& what);

}  // namespace gaudi::test
