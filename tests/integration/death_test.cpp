// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Peers that are killed at any moment: what was under way towards them ends, soon, and others go
// on.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;
using clock_type = std::chrono::steady_clock;

// A second on the same host is what is promised; machines under test are busy.
constexpr std::chrono::seconds soon{5};
constexpr std::size_t largest = 300000;
// By this kill everything has been opened that is opened once.
constexpr int settled = 10;

node_options options() {
  return {.mr_mode = 0};
}

/// Lives until it is killed: takes what comes and lets its memory be written and read.
[[noreturn]] void be_victim(int name_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the nursery end early
  node n(options());
  memory m(n, largest, false, 7);
  const std::string name = n.name();
  if (::write(name_pipe, name.data(), name.size()) < 0) std::exit(1);
  std::vector<bytes> in(8, bytes(largest));
  const auto post = [&](std::size_t i) {
    return fi_trecv(n.ep(), in[i].data(), largest, nullptr, FI_ADDR_UNSPEC, 0, ~std::uint64_t{0},
                    ctx(i + 1));
  };
  for (std::size_t i = 0; i < in.size(); ++i) must(post(i), "fi_trecv");
  for (;;) {
    const completion c = n.wait_any();
    n.post([&] { return post(reinterpret_cast<std::uintptr_t>(c.context) - 1); });
  }
}

/// Has one victim after the other, and never touches libfabric itself.
class nursery {
 public:
  /// The endpoint name of a new victim.
  std::string start() {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) be_victim(ends[1]);
    ::close(ends[1]);
    char name[256];
    const ssize_t got = ::read(ends[0], name, sizeof name);
    ::close(ends[0]);
    if (got <= 0) throw std::runtime_error("the victim did not start");
    return {name, static_cast<std::size_t>(got)};
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

/// Operations towards one peer, each known by its context.
class burst {
 public:
  explicit burst(node& n) : n_(n), data_(bytes_of(1, largest)), in_(largest) {}

  void start(fi_addr_t to) {
    for (const std::size_t size : {std::size_t{8}, std::size_t{9000}, largest}) {
      post([&](void* c) { return fi_tsend(n_.ep(), data_.data(), size, nullptr, to, 1, c); });
      post([&](void* c) { return fi_write(n_.ep(), data_.data(), size, nullptr, to, 0, 7, c); });
      post([&](void* c) { return fi_read(n_.ep(), in_.data(), size, nullptr, to, 0, 7, c); });
    }
  }

  /// Takes completions until all operations have ended or the time is over.
  void finish() {
    const auto end = clock_type::now() + soon;
    while (!open_.empty() && clock_type::now() < end) take();
  }
  [[nodiscard]] std::size_t left() const { return open_.size(); }
  [[nodiscard]] int failed() const { return failed_; }

 private:
  template <class Call>
  void post(Call call) {
    void* const context = ctx(++last_);
    const auto end = clock_type::now() + soon;
    long ret;
    while ((ret = call(context)) == -FI_EAGAIN && clock_type::now() < end) take();
    EXPECT_NE(ret, -FI_EAGAIN) << "neither posted nor refused";
    if (ret == 0) open_.insert(context);
    failed_ += ret != 0;
  }

  void take() {
    n_.poll();
    while (auto c = n_.take_any()) {
      open_.erase(c->context);
      failed_ += c->err != 0;
    }
  }

  node& n_;
  bytes data_, in_;
  std::uintptr_t last_ = 0;
  std::set<void*> open_;
  int failed_ = 0;
};

/// What a connection takes of its process: descriptors, and memory shared with the peer.
struct holdings {
  std::ptrdiff_t descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                             std::filesystem::directory_iterator());
  int segments = 0;

  holdings() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      segments += line.find("memfd:gaudi-fi") != std::string::npos;
  }
};

// That the last one is dead may be news yet.
void expect_no_more_than(const holdings& before, node& n) {
  const auto end = clock_type::now() + soon;
  holdings now;
  while ((now.descriptors > before.descriptors || now.segments > before.segments) &&
         clock_type::now() < end) {
    n.poll();
    now = holdings();
  }
  EXPECT_LE(now.descriptors, before.descriptors) << "left by the dead";
  EXPECT_LE(now.segments, before.segments) << "left by the dead";
}

// Rank 0 survives, rank 1 has the victims, rank 2 is a peer that is well all the time.
void survive(int kills) {
  const std::chrono::seconds ample{std::max(280, kills)};
  run({.ranks = 3, .timeout = ample}, [&](rank& r) {
    std::mt19937 random(4711);
    if (r.id() == 1) {
      nursery victims;
      r.all_gather("");
      for (int i = 0; i < kills; ++i) {
        r.all_gather(victims.start());
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
        victims.kill();
        r.barrier();
        r.barrier();
      }
      return;
    }
    node n(options());
    r.set_idle_work([&] { n.poll(); });
    const auto names = r.all_gather(n.name());
    fi_addr_t well = FI_ADDR_NOTAVAIL;
    must(fi_av_insert(n.av(), names[r.id() == 0 ? 2 : 0].data(), 1, &well, 0, nullptr) - 1,
         "fi_av_insert");
    int failed = 0;
    std::optional<holdings> before;
    for (int i = 0; i < kills; ++i) {
      const std::string name = r.all_gather("")[1];
      burst operations(n);
      if (r.id() == 0) {
        fi_addr_t victim = FI_ADDR_NOTAVAIL;
        must(fi_av_insert(n.av(), name.data(), 1, &victim, 0, nullptr) - 1, "fi_av_insert");
        // More than it has time for.
        for (int turn = 0; turn < 8; ++turn) operations.start(victim);
      }
      r.barrier();  // it is dead now
      operations.finish();
      EXPECT_EQ(operations.left(), 0U) << "kill " << i << ": operations never ended";
      failed += operations.failed();
      // The other peer is as reachable as before.
      char byte = 0;
      n.post([&] { return fi_trecv(n.ep(), &byte, 1, nullptr, well, 99, 0, ctx(1000)); });
      n.post([&] { return fi_tsend(n.ep(), "x", 1, nullptr, well, 99, ctx(1001)); });
      EXPECT_EQ(n.wait(ctx(1000)).err, 0);
      EXPECT_EQ(n.wait(ctx(1001)).err, 0);
      if (i == settled) before.emplace();
      r.barrier();
    }
    expect_no_more_than(*before, n);
    if (r.id() == 0) {
      EXPECT_GT(failed, 0) << "every victim outlived its traffic";
    }
  });
}

TEST(death, of_twenty_peers_in_turn) {
  survive(20);
}

// GAUDI_TEST_KILLS asks for more.
TEST(death_slow, of_two_hundred_peers_in_turn) {
  const char* const asked = std::getenv("GAUDI_TEST_KILLS");
  survive(asked ? std::atoi(asked) : 200);
}

}  // namespace
}  // namespace gaudi::test
