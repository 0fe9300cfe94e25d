// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages that are sent before there is a connection, or credit.
#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "endpoint_node.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::counting;
using test::live_node;
using test::memory_of;
using test::node;
using test::number;
using test::progress_until;
using test::wait;

int inject(node& from, fi_addr_t to, const local_memory& memory) {
  return from.ep->send(memory, {.to = to, .inject = true, .completion = {}});
}

TEST(early_sends, are_called_once_and_arrive_in_their_order) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  constexpr unsigned count = early_sends::most;
  // Short and long ones: some are a message of one packet, and some are fetched.
  const auto length_of = [](unsigned i) { return i % 3 == 2 ? 100'000U + i : 10U + i; };
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> got;
  for (unsigned i = 0; i < count; ++i) {
    sent.push_back(counting(length_of(i), i));
    got.emplace_back(length_of(i));
    // All are for any tag of one kind, so the order is that of their arrival.
    ASSERT_EQ(b.receive(memory_of(got[i].data(), got[i].size()), 7, number(i)), 0);
  }
  for (unsigned i = 0; i < count; ++i)
    ASSERT_EQ(a.send(to, memory_of(sent[i].data(), sent[i].size()), 7, number(i)), 0) << i;
  EXPECT_EQ(a.send(to, memory_of(sent[0].data(), 1), 7, nullptr), -FI_EAGAIN) << "no more of them";
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(wait(b, {&a, &b}).error, 0) << i;
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(wait(a, {&a, &b}).error, 0) << i;
  EXPECT_EQ(got, sent);
}

TEST(early_sends, let_the_caller_have_an_injected_buffer_at_once) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  char got[3] = {};
  for (char& byte : got)
    ASSERT_EQ(
        b.ep->receives().receive(memory_of(&byte, 1), {.completion = b.completion(&byte, FI_RECV)}),
        0);
  for (char said : {'x', 'y', 'z'}) {
    ASSERT_EQ(inject(a, to, memory_of(&said, 1)), 0);
    said = '-';
  }
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return got[2] != 0; }));
  EXPECT_EQ(std::string(got, 3), "xyz");
}

// One message arrives behind the early ones whatever way it takes, and writes are not before them.
TEST(early_sends, are_not_overtaken) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::vector<std::byte> target(8);
  reg::region r;
  b.expose(r, target);
  auto bytes = counting(8);
  const rma_access at{
      .target = to, .address = r.address, .key = r.key, .completion = a.completion(nullptr)};
  ASSERT_EQ(a.send(to, memory_of(bytes.data(), 8), 1, number(1)), 0);
  EXPECT_EQ(a.ep->write(memory_of(bytes.data(), 8), at), -FI_EAGAIN);
  EXPECT_FALSE(a.ep->is_quiet(to)) << "a fence waits for it";
  std::vector<std::byte> got(8);
  ASSERT_EQ(b.receive(memory_of(got.data(), 8), 1, nullptr), 0);
  ASSERT_EQ(wait(b, {&a, &b}).error, 0);
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return a.ep->is_quiet(to); }));
}

TEST(early_sends, of_all_peers_are_visited_whatever_becomes_of_them) {
  early_sends kept;
  std::array<peer, 4> peers;
  char byte = 0;
  for (peer& p : peers) ASSERT_EQ(kept.keep(p, memory_of(&byte, 1), {}), 0);
  std::vector<const peer*> visited;
  kept.for_each_peer([&](peer& p) {
    visited.push_back(&p);
    if (visited.size() % 2 == 1) {
      EXPECT_TRUE(kept.fail(p, FI_ECANCELED));
    }
  });
  std::sort(visited.begin(), visited.end());
  EXPECT_EQ(visited, (std::vector<const peer*>{&peers[0], &peers[1], &peers[2], &peers[3]}));
}

TEST(early_sends, are_counted_where_they_wait_for_a_credit) {
  test::endpoint_by_itself v;
  test::peer_by_hand p(v);
  char byte = 0;
  const auto send = [&] {
    return v.ep->send(memory_of(&byte, 1), {.to = p.address(), .completion = v.completion()});
  };
  for (unsigned i = 0; i < p.said_of_itself().data_window; ++i) ASSERT_EQ(send(), 0);
  EXPECT_EQ(v.paths.stalls.peer, 0U);
  EXPECT_EQ(send(), -FI_EAGAIN) << "the first ones that have to wait are refused";
  EXPECT_EQ(v.paths.stalls.peer, 1U);
}

// MPI_Isend to a rank that computes: as many as fill the window, and then some, without a call of
// the peer's.
TEST(early_sends, wait_for_the_credits_of_a_peer_that_does_not_progress) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::array<char, 2 * early_sends::most + 2> sent{};
  std::iota(sent.begin(), sent.end(), 0);
  std::array<char, sent.size()> got{};
  const auto receive = [&](std::size_t i) {
    return b.receive(memory_of(&got[i], 1), 7, number(i));
  };
  ASSERT_EQ(receive(0), 0);
  ASSERT_EQ(a.send(to, memory_of(&sent[0], 1), 7, nullptr), 0);
  ASSERT_EQ(wait(b, {&a, &b}).error, 0);

  std::size_t count = 1;
  const auto send_next = [&] {
    for (unsigned refused = 0; refused <= test::small_settings().refusals_before_waiting; ++refused)
      if (a.send(to, memory_of(&sent[count], 1), 7, nullptr) == 0) return true;
    return false;
  };
  while (count < sent.size() && send_next()) ++count;
  EXPECT_GT(count, 1U + credit_pool::most);
  EXPECT_LT(count, sent.size()) << "no more of them";
  EXPECT_FALSE(a.ep->is_quiet(to)) << "a fence waits for them";
  for (std::size_t i = 1; i < count; ++i) ASSERT_EQ(receive(i), 0);
  for (std::size_t i = 1; i < count; ++i) ASSERT_EQ(wait(b, {&a, &b}).error, 0) << i;
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + count, sent.begin())) << "in their order";
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return a.ep->is_quiet(to); }));
}

// A message that waits costs more than one that is refused a few times, and a peer that only takes
// its time has credits soon.
TEST(early_sends, wait_for_credits_only_where_the_peer_is_silent) {
  auto config = test::small_settings();
  config.kernel = nullptr;
  config.refusals_before_waiting = 5;
  test::endpoint_by_itself v(config);
  test::peer_by_hand p(v);
  char byte = 'x';
  const auto send = [&] {
    return v.ep->send(memory_of(&byte, 1), {.to = p.address(), .completion = {}});
  };
  for (unsigned i = 0; i < credit_pool::most; ++i) ASSERT_EQ(send(), 0) << i;  // the peer's hello
  const auto refused = [&] {
    unsigned times = 0;
    while (send() == -FI_EAGAIN) ++times;
    return times;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(send(), -FI_EAGAIN);
  p.confirm();
  p.settle();
  EXPECT_EQ(refused(), 5U) << "since the peer's last packet";
  EXPECT_EQ(refused(), 0U) << "it is silent still";
  p.confirm();
  p.settle();
  EXPECT_EQ(refused(), 5U);
}

TEST(early_sends, are_not_lost_when_the_sender_closes_at_once) {
  auto config = test::small_settings();
  config.linger = 60s;
  live_node b;
  char got = 0;
  ASSERT_EQ(
      b.ep->receives().receive(memory_of(&got, 1), {.completion = b.completion(&got, FI_RECV)}), 0);
  std::atomic<bool> over{false};
  {
    live_node a(config);
    const auto to = a.meet(b);
    std::thread peer([&] {
      while (!over) b.ep->progress();
    });
    char said = 'x';
    EXPECT_EQ(inject(a, to, memory_of(&said, 1)), 0);
    a.ep->shut_down();
    over = true;
    peer.join();
  }
  EXPECT_TRUE(progress_until({&b}, [&] { return got == 'x'; }));
}

}  // namespace
}  // namespace gaudi::proto
