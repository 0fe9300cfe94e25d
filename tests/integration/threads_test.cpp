// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// FI_THREAD_SAFE: several threads use one endpoint and one queue at once.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include "common/let_others_run.hpp"
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
      common::let_others_run();
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

// Ends by being cancelled, or not at all.
struct thread_to_cancel {
  node& n;
  std::function<void(node&)> calls;
  bool by_itself;  // before the calls
  bool came_back = false;

  static void* run(void* self) {
    auto& own = *static_cast<thread_to_cancel*>(self);
    if (own.by_itself) ::pthread_cancel(::pthread_self());
    own.calls(own.n);
    own.came_back = true;
    ::pthread_testcancel();
    return nullptr;
  }
};

// Whether it had come back from its calls.
bool cancel(node& n, bool by_itself, std::function<void(node&)> calls) {
  thread_to_cancel own{n, std::move(calls), by_itself};
  pthread_t thread{};
  void* ended = nullptr;
  must(-::pthread_create(&thread, nullptr, &thread_to_cancel::run, &own), "pthread_create");
  if (!by_itself) ::pthread_cancel(thread);
  must(-::pthread_join(thread, &ended), "pthread_join");
  EXPECT_EQ(PTHREAD_CANCELED, ended);
  return own.came_back;
}

void exchange_some(node& n, int other, std::uint64_t tag, std::size_t size) {
  const bytes out = bytes_of(tag, size);
  bytes in(out.size());
  n.post([&] {
    return fi_trecv(n.ep(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, tag, 0, ctx(1));
  });
  n.post([&] {
    return fi_tsend(n.ep(), out.data(), out.size(), nullptr, n.peer(other), tag, ctx(2));
  });
  n.wait(ctx(1));
  n.wait(ctx(2));
  expect_same(out, in, "message " + std::to_string(tag));
}

void exchange(rank& r, node& n, std::uint64_t tag) {
  exchange_some(n, 1 - r.id(), tag, 100);
  r.barrier();
}

// pthread_cancel(3) while a thread is in the provider.
TEST(threads, one_that_is_cancelled_ends_when_nothing_is_half_done) {
  run({}, [](rank& r) {
    node n({.mr_mode = 0, .threading = FI_THREAD_SAFE, .wait = FI_WAIT_FD, .counters = {FI_SEND}});
    n.meet(r);
    exchange(r, n, 1);
    fi_cq_tagged_entry entry{};
    EXPECT_TRUE(cancel(n, true, [&](node& own) {
      for (int i = 0; i < 1000; ++i) fi_cq_read(own.cq(), &entry, 1);
    })) << "it ends in the middle of progress";
    exchange(r, n, 2);
    for (const bool by_itself : {true, false}) {
      EXPECT_FALSE(
          cancel(n, by_itself, [&](node& own) { fi_cq_sread(own.cq(), &entry, 1, nullptr, -1); }));
      exchange(r, n, 3);
      EXPECT_FALSE(
          cancel(n, by_itself, [&](node& own) { fi_cntr_wait(own.counter(0), 1000, -1); }));
      exchange(r, n, 4);
    }
  });
}

// Each of these ended the process where it met a cancellation point, or left a lock behind.
TEST(threads, one_that_is_cancelled_ends_in_no_call_that_does_not_sleep) {
  run({}, [](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    const bool device = is_gaudi();
    const node_options options{
        .threading = FI_THREAD_SAFE, .wait = FI_WAIT_FD, .counters = {FI_SEND}, .device = device};
    node n(options);
    EXPECT_TRUE(cancel(n, true, [&](node&) { const node opened(options); })) << "opens and closes";
    n.meet(r);
    EXPECT_TRUE(cancel(n, true, [&](node& own) {
      for (const std::size_t size : {100, 5000, 300'000}) exchange_some(own, 1 - r.id(), 1, size);
    })) << "connects and exchanges";
    r.barrier();
    EXPECT_TRUE(cancel(n, true, [&](node& own) {
      memory target(own, 100'000, device);
      memory source(own, 100'000, device);
      target.put(0, bytes(100'000));
      source.put(0, bytes_of(3, 100'000));
      for (const std::size_t size : {64, 100'000}) {
        own.post([&] {
          return fi_write(own.ep(), source.at(0), size, source.desc(), own.peer(r.id()),
                          target.remote(0), target.key(), ctx(3));
        });
        own.wait(ctx(3));
      }
      expect_same(bytes_of(3, 100'000), target.get(0, 100'000), "what is written");
    })) << "registers and writes to itself";
    r.barrier();
    exchange(r, n, 2);
  });
}

}  // namespace
}  // namespace gaudi::test
