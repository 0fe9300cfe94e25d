// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints that share memory, as those of two processes on one host do. That they behave as all
// others do is what the other tests say when GAUDI_TEST_IPC is set; these are about the way itself.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/scoped_fd.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

endpoint::settings sharing() {
  auto s = test::small_settings();
  s.kernel = &ipc::host_kernel::real();
  return s;
}

endpoint::settings alone() {
  auto s = test::small_settings();
  s.kernel = nullptr;
  return s;
}

TEST(endpoint_link, takes_short_messages_and_copies_long_ones_once) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  pass(a, to, b, 100, 1);
  EXPECT_EQ(a.paths.shm_ops, 1U);
  EXPECT_EQ(a.paths.eager_ops, 1U);
  pass(a, to, b, 1'000'000, 2);
  EXPECT_EQ(a.paths.cma_bytes + b.paths.cma_bytes, 1'000'000U);
  EXPECT_EQ(a.paths.direct_bytes + b.paths.direct_bytes, 0U) << "the core carried it";
}

TEST(endpoint_link, lets_the_peer_read_what_would_be_long_for_it) {
  auto config = sharing();
  config.max_by_ring = 1000;
  live_node a(config);
  live_node b(config);
  const auto to = a.meet(b);
  pass(a, to, b, 1000, 1);
  EXPECT_EQ(a.paths.shm_ops, 1U);
  pass(a, to, b, 1001, 2);
  EXPECT_EQ(a.paths.cma_bytes + b.paths.cma_bytes, 1001U);
  EXPECT_EQ(a.paths.shm_ops, 1U);
}

TEST(endpoint_link, takes_what_the_peer_shall_not_read) {
  auto config = sharing();
  config.max_by_ring = 1000;
  config.rendezvous = base::rendezvous_choice::staged;
  live_node a(config);
  live_node b(config);
  pass(a, a.meet(b), b, 1001, 2);
  EXPECT_EQ(a.paths.shm_ops, 1U);
  EXPECT_EQ(a.paths.cma_bytes + b.paths.cma_bytes, 0U);
}

TEST(endpoint_link, takes_sixteen_packets_of_a_peer_before_others_have_their_turn) {
  auto config = sharing();
  config.rx_buffers = 256;  // credits for all of them
  live_node a(config);
  live_node b(config);
  const auto to = a.meet(b);
  pass(a, to, b, 100, 1);
  constexpr std::size_t count = 40;
  std::byte one{};
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(b.receive(memory_of(&one, 1), 2, nullptr), 0);
    ASSERT_EQ(a.send(to, memory_of(&one, 1), 2, nullptr), 0);
  }
  for (const std::size_t taken : {16U, 32U, 40U}) {
    b.ep->progress();
    EXPECT_EQ(b.queue.size(), taken);
  }
}

// Each look finds another message that is expected.
TEST(endpoint_link, lets_what_comes_by_the_core_have_its_turn_however_much_comes_through_it) {
  live_node a(sharing());
  live_node b(sharing());
  live_node c(alone());
  pass(a, a.meet(b), b, 100, 1);
  pass(c, c.meet(b), b, 100, 1);
  std::byte one{};
  std::byte two{};
  ASSERT_EQ(b.receive(memory_of(&two, 1), 3, nullptr), 0);
  ASSERT_EQ(c.send(c.meet(b), memory_of(&two, 1), 3, nullptr), 0);
  constexpr int enough = 100'000;
  int looks = 0;
  for (bool is_there = false; !is_there && looks < enough; ++looks) {
    ASSERT_EQ(b.receive(memory_of(&one, 1), 2, nullptr), 0);
    while (a.send(a.meet(b), memory_of(&one, 1), 2, nullptr) == -FI_EAGAIN) a.ep->progress();
    c.ep->progress();
    while (b.queue.empty()) b.ep->progress();
    for (; !b.queue.empty(); b.queue.pop()) is_there = is_there || b.queue.front().tag == 3;
    while (!a.queue.empty()) a.queue.pop();
  }
  EXPECT_LT(looks, enough);
}

// Both look at their progress in turn.
TEST(endpoint_link, lets_the_sender_copy_along) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  for (const std::size_t length : {262'144U, 1'000'001U, 10'000'000U})
    pass(a, to, b, length, length);
  EXPECT_GT(a.paths.cma_bytes, 0U) << "the sender did not";
  EXPECT_GT(b.paths.cma_bytes, 0U) << "the receiver did not";
  EXPECT_EQ(a.paths.cma_bytes + b.paths.cma_bytes, 11'262'145U);
}

TEST(endpoint_link, copies_all_of_it_where_the_sender_does_something_else) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  pass(a, to, b, 100, 1);
  const auto sent = counting(1'000'000, 2);
  std::vector<std::byte> got(sent.size());
  ASSERT_EQ(a.send(to, memory_of(const_cast<std::byte*>(sent.data()), sent.size()), 2, &a), 0);
  ASSERT_EQ(b.receive(memory_of(got.data(), got.size()), 2, &b), 0);
  EXPECT_TRUE(progress_until({&b}, [&] { return !b.queue.empty(); }));
  EXPECT_EQ(b.take().error, 0);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(b.paths.cma_bytes, sent.size());
}

TEST(endpoint_link, copies_to_the_receiver_where_the_sender_is_told_to) {
  auto writes = sharing();
  writes.rendezvous = base::rendezvous_choice::write;
  live_node a(writes);
  live_node b(writes);
  pass(a, a.meet(b), b, 1'000'000, 2);
  EXPECT_EQ(a.paths.cma_bytes, 1'000'000U);
  EXPECT_EQ(b.paths.cma_bytes + a.paths.direct_bytes + b.paths.direct_bytes, 0U);
}

TEST(endpoint_link, is_not_made_unless_both_ends_share) {
  for (const bool first : {true, false}) {
    live_node a(first ? sharing() : alone());
    live_node b(first ? alone() : sharing());
    const auto to = a.meet(b);
    for (const std::size_t length : {8U, 100'000U}) pass(a, to, b, length, length);
    EXPECT_EQ(a.paths.shm_ops + b.paths.shm_ops, 0U);
    EXPECT_EQ(a.paths.cma_ops + b.paths.cma_ops, 0U);
  }
}

TEST(endpoint_link, reads_and_writes_memory_by_the_core_s_keys_and_refuses_others) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  std::vector<std::byte> target(50'000);
  reg::region r;
  b.expose(r, target);
  ASSERT_FALSE(r.key & reg::key_table::software_bit);
  for (const std::size_t length : {1U, 1000U, 50'000U}) {
    auto sent = counting(length, 7);
    const auto write = [&](std::uint64_t key) {
      const rma_access at{.target = to,
                          .address = r.address,
                          .key = key,
                          .completion = a.completion(number(1), FI_RMA)};
      EXPECT_EQ(post({&a, &b}, [&] { return a.ep->write(memory_of(sent.data(), length), at); }), 0);
      return wait(a, {&a, &b}).error;
    };
    EXPECT_EQ(write(r.key), 0);
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), target.begin()));
    std::fill(target.begin(), target.end(), std::byte{0});
    EXPECT_EQ(write(r.key + 1000), FI_EACCES);
    EXPECT_TRUE(std::all_of(target.begin(), target.end(), [](auto x) { return x == std::byte{0}; }))
        << "a wrong key wrote " << length << " bytes";
  }
  EXPECT_EQ(a.paths.direct_ops + b.paths.direct_ops, 0U);
}

// FI_ORDER_SAW and FI_ORDER_WAW: a message behind a long write finds it done.
TEST(endpoint_link, keeps_long_writes_and_what_follows_in_order) {
  auto ordered = sharing();
  ordered.rma_order = true;
  live_node a(ordered);
  live_node b(ordered);
  const auto to = a.meet(b);
  std::vector<std::byte> target(2'000'000);
  reg::region r;
  b.expose(r, target);
  for (unsigned round = 1; round <= 20; ++round) {
    auto first = counting(target.size(), round);
    auto second = counting(1000, round + 100);
    char arrived = 0;
    ASSERT_EQ(b.receive(memory_of(&arrived, 1), round, number(9)), 0);
    const auto write = [&](std::vector<std::byte>& bytes) {
      return a.ep->write(memory_of(bytes.data(), bytes.size()),
                         {.target = to, .address = r.address, .key = r.key, .completion = {}});
    };
    ASSERT_EQ(post({&a, &b}, [&] { return write(first); }), 0);
    ASSERT_EQ(post({&a, &b}, [&] { return write(second); }), 0);
    char said = 'x';
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&said, 1), round, number(1)); }), 0);
    ASSERT_TRUE(progress_until({&b, &a}, [&] { return arrived == 'x'; }));
    EXPECT_TRUE(std::equal(second.begin(), second.end(), target.begin())) << "round " << round;
    EXPECT_TRUE(std::equal(first.begin() + 1000, first.end(), target.begin() + 1000));
    wait(a, {&a, &b});
    wait(b, {&a, &b});
  }
}

// A message that is posted before a long write has ended waits for it, without a repeated call.
TEST(endpoint_link, lets_a_message_wait_for_a_long_write_before_it) {
  auto ordered = sharing();
  ordered.rma_order = true;
  live_node a(ordered);
  live_node b(ordered);
  const auto to = a.meet(b);
  std::vector<std::byte> target(2'000'000);
  reg::region r;
  b.expose(r, target);
  for (unsigned round = 1; round <= 20; ++round) {
    auto bytes = counting(target.size(), round);
    char arrived = 0;
    ASSERT_EQ(b.receive(memory_of(&arrived, 1), round, number(9)), 0);
    const auto write = [&] {
      return a.ep->write(memory_of(bytes.data(), bytes.size()),
                         {.target = to, .address = r.address, .key = r.key, .completion = {}});
    };
    ASSERT_EQ(post({&a, &b}, write), 0);
    char said = 'x';
    ASSERT_EQ(a.send(to, memory_of(&said, 1), round, number(1)), 0);
    ASSERT_TRUE(progress_until({&b, &a}, [&] { return arrived == 'x'; }));
    EXPECT_TRUE(bytes == target) << "round " << round;
    wait(a, {&a, &b});
    wait(b, {&a, &b});
  }
}

// FI_ORDER_WAR: a write behind a long read does not change what is read.
TEST(endpoint_link, keeps_writes_behind_long_reads) {
  auto ordered = sharing();
  ordered.rma_order = true;
  live_node a(ordered);
  live_node b(ordered);
  const auto to = a.meet(b);
  std::vector<std::byte> target(2'000'000);
  reg::region r;
  b.expose(r, target);
  for (unsigned round = 1; round <= 20; ++round) {
    const auto before = counting(target.size(), round);
    target = before;
    std::vector<std::byte> got(target.size());
    auto later = counting(1000, round + 100);
    const rma_access at{.target = to,
                        .address = r.address,
                        .key = r.key,
                        .completion = a.completion(number(3), FI_RMA)};
    ASSERT_EQ(post({&a, &b}, [&] { return a.ep->read(memory_of(got.data(), got.size()), at); }), 0);
    ASSERT_EQ(post({&a, &b}, [&] { return a.ep->write(memory_of(later.data(), 1000), at); }), 0);
    EXPECT_EQ(wait(a, {&a, &b}).error, 0);
    EXPECT_EQ(wait(a, {&a, &b}).error, 0);
    EXPECT_TRUE(std::equal(later.begin(), later.end(), target.begin()));
    EXPECT_TRUE(got == before) << "round " << round;
  }
}

TEST(endpoint_link, holds_more_messages_than_the_ring_has_room_for) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  constexpr unsigned count = 500;
  const auto sent = counting(4000);
  std::vector<std::vector<std::byte>> got(count, std::vector<std::byte>(sent.size()));
  // None is wanted yet: credits stop the sender, and the receiver keeps what came.
  unsigned posted = 0;
  const auto send_some = [&] {
    while (posted < count) {
      if (a.send(to, memory_of(const_cast<std::byte*>(sent.data()), sent.size()), posted, nullptr))
        return;
      ++posted;
    }
  };
  progress_until({&a, &b}, [&, n = 0]() mutable {
    send_some();
    return ++n > 2000;
  });
  EXPECT_GT(posted, 30U);
  for (unsigned i = 0; i < count; ++i)
    ASSERT_EQ(b.receive(memory_of(got[i].data(), got[i].size()), i, nullptr), 0);
  unsigned received = 0;
  ASSERT_TRUE(progress_until({&a, &b}, [&] {
    send_some();
    while (!a.queue.empty()) a.take();
    while (!b.queue.empty()) {
      EXPECT_EQ(b.take().error, 0);
      ++received;
    }
    return received == count;
  }));
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](const auto& g) { return g == sent; }));
}

TEST(endpoint_link, gives_up_its_last_messages_when_the_peer_closes) {
  for (int round = 0; round < 20; ++round) {
    live_node b(sharing());
    char got[2] = {};
    ASSERT_EQ(b.receive(memory_of(&got[0], 1), 1, nullptr), 0);
    {
      live_node a(sharing());
      const auto to = a.meet(b);
      char said[] = "xy";
      ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&said[0], 1), 1, nullptr); }), 0);
      ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&said[1], 1), 2, nullptr); }), 0);
      for (int sent = 0; sent < 2; ++sent) ASSERT_EQ(wait(a, {&a, &b}).error, 0);
    }
    ASSERT_EQ(b.receive(memory_of(&got[1], 1), 2, nullptr), 0);
    EXPECT_TRUE(progress_until({&b}, [&] { return got[0] == 'x' && got[1] == 'y'; }));
  }
}

/// While it lives, the process gets no further descriptor.
struct no_descriptors {
  no_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const base::scoped_fd next(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    const rlimit none{static_cast<rlim_t>(next.get()), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

std::vector<pollfd> wait_fds_of(const test::node& n) {
  std::vector<pollfd> fds;
  for (const int fd : n.ep->wait_fds()) fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  return fds;
}

/// Progress as of a thread that sleeps whenever it may.
struct sleeper : test::node {
  sleeper() : node(sharing()) { EXPECT_TRUE(ep->enable({.waitable = true})); }
  void turn() {
    if (asleep) {
      auto fds = wait_fds_of(*this);
      if (::poll(fds.data(), fds.size(), 0) == 0) return;
    }
    ep->progress();
    asleep = ep->try_wait() == 0;
  }
  bool asleep = false;
};

TEST(endpoint_link, is_done_without_by_those_who_cannot_take_the_memory) {
  live_node a(sharing());
  sleeper b;
  const auto to = a.meet(b);
  const auto back = b.meet(a);
  char got[3] = {};
  for (std::uint64_t tag : {1U, 2U}) ASSERT_EQ(b.receive(memory_of(&got[tag], 1), tag, nullptr), 0);
  ASSERT_EQ(a.receive(memory_of(&got[0], 1), 0, nullptr), 0);
  // The request leaves before descriptors run out, the answer arrives after. Nobody says anything,
  // so only the refusal itself wakes b.
  char said = 'x';
  EXPECT_EQ(a.send(to, memory_of(&said, 1), 1, nullptr), 0);
  const auto turn = [&] {
    b.turn();
    const no_descriptors left;
    a.ep->progress();
  };
  for (int i = 0; i < 2000; ++i) turn();
  EXPECT_TRUE(progress_until({}, [&] {
    turn();
    return b.send(back, memory_of(&said, 1), 0, nullptr) == 0;
  })) << "nothing woke the peer";
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&said, 1), 2, nullptr); }), 0);
  EXPECT_TRUE(progress_until({&a, &b},
                             [&] { return std::count(std::begin(got), std::end(got), 'x') == 3; }));
  EXPECT_EQ(a.paths.eager_ops + b.paths.eager_ops, 3U);
  EXPECT_EQ(a.paths.shm_ops + b.paths.shm_ops, 0U);
}

TEST(endpoint_link, wakes_a_peer_that_sleeps) {
  live_node a(sharing());
  test::node b(sharing());
  ASSERT_TRUE(b.ep->enable({.waitable = true}));
  const auto to = a.meet(b);
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    char got = 0;
    ASSERT_EQ(b.receive(memory_of(&got, 1), tag, nullptr), 0);
    char said = 'x';
    if (tag > 1) {
      ASSERT_TRUE(progress_until({&a}, [&] { return b.ep->try_wait() == 0; }));
      EXPECT_EQ(got, 0);
    }
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&said, 1), tag, nullptr); }), 0);
    if (tag > 1) {
      auto fds = wait_fds_of(b);
      EXPECT_GT(::poll(fds.data(), fds.size(), 30'000), 0) << "nothing woke it";
    }
    EXPECT_TRUE(progress_until({&a, &b}, [&] { return got == 'x'; }));
  }
  EXPECT_EQ(a.paths.shm_ops, 3U);
}

// The receiver has not heard of the end yet.
TEST(endpoint_link, takes_nothing_from_memory_of_a_sender_that_has_closed) {
  live_node a(sharing());
  live_node b(sharing());
  const auto to = a.meet(b);
  pass(a, to, b, 100, 1);
  auto bytes = counting(100'000);
  std::vector<std::byte> got(bytes.size());
  ASSERT_EQ(b.receive(memory_of(got.data(), got.size()), 2, nullptr), 0);
  ASSERT_EQ(a.send(to, memory_of(bytes.data(), bytes.size()), 2, nullptr), 0);
  a.ep->shut_down();
  std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
  EXPECT_EQ(wait(b, {&b}).error, FI_ECONNRESET);
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](auto x) { return x == std::byte{0}; }));
}

}  // namespace
}  // namespace gaudi::proto
