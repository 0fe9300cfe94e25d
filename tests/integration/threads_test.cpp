// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// FI_THREAD_SAFE: several threads use one endpoint and one queue at once.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr int threads = 4;
constexpr std::uintptr_t rounds = 200;

std::size_t size_of(std::uintptr_t round) {
  return round % 20 == 19 ? 100000 : 50 * (round % 9);
}

// Sends and receives messages of one tag, and reads the queue that all threads share. Any thread
// may get any completion, so each only counts.
class worker {
 public:
  worker(node& n, int peer, int number, std::atomic<std::uint64_t>& done)
      : node_(n), peer_(peer), tag_(static_cast<std::uint64_t>(number)), done_(done) {}

  void operator()() {
    for (std::uintptr_t i = 0; i < rounds; ++i) {
      out_.push_back(bytes_of(tag_ * rounds + i, size_of(i)));
      in_.emplace_back(size_of(i));
    }
    for (std::uintptr_t i = 0; i < rounds; ++i) {
      start([&] {
        return fi_trecv(node_.ep(), in_[i].data(), in_[i].size(), nullptr, FI_ADDR_UNSPEC, tag_, 0,
                        nullptr);
      });
      start([&] {
        return fi_tsend(node_.ep(), out_[i].data(), out_[i].size(), nullptr, node_.peer(peer_),
                        tag_, nullptr);
      });
      poll();
    }
    while (done_ < 2 * rounds * threads) poll();
    for (std::uintptr_t i = 0; i < rounds; ++i)
      expect_same(out_[i], in_[i], "message " + std::to_string(i));
  }

 private:
  template <class Call>
  void start(Call call) {
    while (call() == -FI_EAGAIN) poll();
  }

  void poll() {
    fi_cq_tagged_entry entry{};
    const ssize_t count = fi_cq_read(node_.cq(), &entry, 1);
    if (count > 0) done_ += static_cast<std::uint64_t>(count);
    if (count == -FI_EAGAIN)
      std::this_thread::yield();
    else
      must(count, "fi_cq_read");
  }

  node& node_;
  int peer_;
  std::uint64_t tag_;
  std::atomic<std::uint64_t>& done_;
  std::vector<bytes> out_;
  std::vector<bytes> in_;
};

TEST(threads, share_one_endpoint) {
  run({}, [](rank& r) {
    node n({.mr_mode = 0, .threading = FI_THREAD_SAFE});
    n.meet(r);
    r.barrier();
    std::atomic<std::uint64_t> done = 0;
    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i) team.emplace_back(worker(n, 1 - r.id(), i, done));
    for (std::thread& t : team) t.join();
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
