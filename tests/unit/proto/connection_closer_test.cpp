// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fi_av_remove: a connection that is not needed any more is closed, and nothing is lost by it.
#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::pass;
using test::progress_until;
using test::wait;

bool is_closed_at_both(live_node& a, live_node& b) {
  return progress_until(
      {&a, &b}, [&] { return a.paths.connections.closed != 0 && b.paths.connections.closed != 0; });
}

void progress_for_long(live_node& a, live_node& b) {
  for (int i = 0; i < 20'000; ++i) {
    a.ep->progress();
    b.ep->progress();
  }
}

TEST(connection_closer, closes_what_neither_end_uses) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  pass(a, to, b, 100, 1);
  pass(a, to, b, 100'000, 2);
  ASSERT_TRUE(a.addresses.remove(to));
  EXPECT_TRUE(is_closed_at_both(a, b));
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

TEST(connection_closer, leaves_a_connection_that_has_another_address) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  const auto again = a.meet(b);
  pass(a, to, b, 100, 1);
  ASSERT_TRUE(a.addresses.remove(to));
  progress_for_long(a, b);
  EXPECT_EQ(a.paths.connections.closed, 0U);
  pass(a, again, b, 100, 2);
  EXPECT_EQ(a.paths.connections.made, 1U);
}

// The peer's message waits for a receive, and its memory for whoever takes it.
TEST(connection_closer, waits_for_an_operation_of_the_peer) {
  live_node a;
  live_node b;
  const auto to_b = a.meet(b);
  const auto to_a = b.meet(a);
  pass(a, to_b, b, 8, 1);
  auto sent = counting(100'000);
  ASSERT_EQ(b.send(to_a, memory_of(sent.data(), sent.size()), 7, number(1)), 0);
  ASSERT_TRUE(a.addresses.remove(to_b));
  progress_for_long(a, b);
  EXPECT_EQ(a.paths.connections.closed + b.paths.connections.closed, 0U);
  std::vector<std::byte> got(sent.size());
  ASSERT_EQ(a.receive(memory_of(got.data(), got.size()), 7, nullptr), 0);
  EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(wait(b, {&a, &b}).error, 0);
  EXPECT_TRUE(is_closed_at_both(a, b));
}

// Its receiver has not looked yet.
TEST(connection_closer, takes_along_what_was_sent_before_the_end) {
  live_node a;
  live_node b;
  const auto to_b = a.meet(b);
  const auto to_a = b.meet(a);
  pass(a, to_b, b, 8, 1);
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_EQ(b.send(to_a, memory_of(&i, sizeof i), 7, nullptr), 0);
  ASSERT_TRUE(a.addresses.remove(to_b));
  ASSERT_TRUE(is_closed_at_both(a, b));
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::uint64_t got = ~std::uint64_t{0};
    ASSERT_EQ(a.receive(memory_of(&got, sizeof got), 7, nullptr), 0);
    ASSERT_EQ(wait(a, {&a, &b}).error, 0);
    EXPECT_EQ(got, i);
  }
}

// From the removal on, and while the ends agree.
TEST(connection_closer, has_what_is_sent_meanwhile_go_by_the_next_connection) {
  live_node a;
  live_node b;
  auto to_b = a.meet(b);
  const auto to_a = b.meet(a);
  pass(a, to_b, b, 8, 1);
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(a.addresses.remove(to_b));
    // Another number of steps each time, so that the sends find the ends at each of theirs.
    for (std::uint64_t i = 0; i < round % 50; ++i) {
      if (i % 2 == 0) a.ep->progress();
      if (i % 3 != 0) b.ep->progress();
    }
    to_b = a.meet(b);
    std::uint64_t forth = round;
    std::uint64_t back = round + 1'000;
    ASSERT_EQ(a.send(to_b, memory_of(&forth, sizeof forth), 5, nullptr), 0);
    ASSERT_EQ(b.send(to_a, memory_of(&back, sizeof back), 6, nullptr), 0);
    std::uint64_t got_forth = 0;
    std::uint64_t got_back = 0;
    ASSERT_EQ(b.receive(memory_of(&got_forth, sizeof forth), 5, number(1)), 0);
    ASSERT_EQ(a.receive(memory_of(&got_back, sizeof back), 6, number(1)), 0);
    for (live_node* n : {&a, &b})
      for (int i = 0; i < 2; ++i) ASSERT_EQ(wait(*n, {&a, &b}).error, 0) << round;
    EXPECT_EQ(got_forth, forth);
    EXPECT_EQ(got_back, back);
  }
  EXPECT_GT(a.paths.connections.closed, 0U);
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

}  // namespace
}  // namespace gaudi::proto
