// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/match/unexpected_budget.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::post;
using test::progress_until;
using test::wait;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(unexpected_budget, is_all_for_a_peer_that_is_alone) {
  unexpected_budget budget(mebibyte);
  unexpected_budget::share one;
  budget.keep(one, mebibyte);
  EXPECT_FALSE(budget.is_exceeded(one, 1));
  budget.keep(one, 1);
  EXPECT_TRUE(budget.is_exceeded(one, 1));
  budget.drop(one, 1);
  EXPECT_FALSE(budget.is_exceeded(one, 1));
  EXPECT_FALSE(one.empty());
  budget.drop(one, mebibyte);
  EXPECT_TRUE(one.empty());
  EXPECT_EQ(budget.kept(), 0U);
}

TEST(unexpected_budget, leaves_its_part_to_each_peer_whatever_another_sends) {
  constexpr std::size_t peers = 4;
  unexpected_budget budget(mebibyte);
  std::array<unexpected_budget::share, peers> all;
  while (!budget.is_exceeded(all[0], peers)) budget.keep(all[0], 1000);
  for (std::size_t i = 1; i < peers; ++i) {
    EXPECT_FALSE(budget.is_exceeded(all[i], peers));
    budget.keep(all[i], mebibyte / (2 * peers));
    EXPECT_FALSE(budget.is_exceeded(all[i], peers)) << i;
    budget.keep(all[i], 1000);
    EXPECT_TRUE(budget.is_exceeded(all[i], peers)) << i;
  }
}

// Of little memory as well: half of it, where that is less than a peer has in any case.
TEST(unexpected_budget, leaves_half_of_a_few_bytes_to_a_peer_however_many_there_are) {
  constexpr std::size_t few = 96 * 1024;
  unexpected_budget budget(few);
  unexpected_budget::share one;
  unexpected_budget::share another;
  budget.keep(one, few / 2);
  budget.keep(another, 1000);
  EXPECT_FALSE(budget.is_exceeded(one, 8));
  budget.keep(one, 1);
  EXPECT_TRUE(budget.is_exceeded(one, 8));
  EXPECT_FALSE(budget.is_exceeded(another, 8));
}

// Each peer sends until it is stopped, in any order.
TEST(unexpected_budget, is_never_exceeded_by_more_than_what_came_last) {
  constexpr std::size_t most = 5000;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const std::size_t peers = 1 + random() % 8;
    unexpected_budget budget(mebibyte);
    std::array<unexpected_budget::share, 8> all;
    for (int step = 0; step < 5000; ++step) {
      auto& one = all[random() % peers];
      if (!budget.is_exceeded(one, peers)) budget.keep(one, 1 + random() % most);
    }
    EXPECT_LE(budget.kept(), mebibyte + peers * most) << "seed " << seed;
  }
}

/// Sends unexpected messages until the receiver stops it. How many went.
unsigned flood(live_node& from, fi_addr_t to, live_node& receiver, std::size_t length,
               std::uint64_t tag) {
  static auto bytes = counting(4000);  // some messages still wait for credits when this returns
  unsigned sent = 0;
  for (int refused = 0; refused < 2000;) {
    const bool went = from.send(to, memory_of(bytes.data(), length), tag, number(1)) == 0;
    refused = went ? 0 : refused + 1;
    sent += went;
    from.ep->progress();
    receiver.ep->progress();
    if (sent == 10'000) break;
  }
  return sent;
}

endpoint::settings small_budget() {
  auto s = test::small_settings();
  s.unexpected_limit = mebibyte / 4;
  return s;
}

// The receiver waits for a message that comes behind more than a window of others.
TEST(unexpected_budget, of_one_peer_is_not_used_up_by_another) {
  constexpr unsigned before = 100;
  live_node receiver(small_budget());
  live_node flooder;
  live_node innocent;
  const auto flooder_to = flooder.meet(receiver);
  const auto to = innocent.meet(receiver);
  ASSERT_LT(flood(flooder, flooder_to, receiver, 4000, 7), 10'000U);

  char wanted = 0;
  ASSERT_EQ(receiver.receive(memory_of(&wanted, 1), 99, number(99)), 0);
  char said = 'x';
  for (unsigned i = 0; i < before; ++i)
    ASSERT_EQ(post({&innocent, &receiver},
                   [&] { return innocent.send(to, memory_of(&said, 1), 8, number(i)); }),
              0)
        << "message " << i;
  ASSERT_EQ(post({&innocent, &receiver},
                 [&] { return innocent.send(to, memory_of(&said, 1), 99, number(99)); }),
            0);
  EXPECT_EQ(wait(receiver, {&receiver, &innocent}).context, number(99));
  EXPECT_EQ(wanted, 'x');
}

// Those taken first are those whose credits went back long ago.
TEST(unexpected_budget, that_has_room_again_lets_the_sender_go_on) {
  live_node receiver(small_budget());
  live_node sender;
  const auto to = sender.meet(receiver);
  const unsigned sent = flood(sender, to, receiver, 4000, 7);
  ASSERT_LT(sent, 10'000U);
  std::vector<std::byte> got(4000);
  for (unsigned i = 0; i < sent / 2; ++i) {
    ASSERT_EQ(receiver.receive(memory_of(got.data(), got.size()), 7, number(1)), 0);
    ASSERT_EQ(wait(receiver, {&receiver, &sender}).error, 0);
  }
  char wanted = 0;
  ASSERT_EQ(receiver.receive(memory_of(&wanted, 1), 99, number(99)), 0);
  char said = 'x';
  ASSERT_EQ(post({&sender, &receiver},
                 [&] { return sender.send(to, memory_of(&said, 1), 99, number(99)); }),
            0)
      << "half of " << sent << " messages were taken";
  EXPECT_EQ(wait(receiver, {&receiver, &sender}).context, number(99));
}

// The flood is received; what was kept of the other peer meanwhile stays, and more comes.
TEST(unexpected_budget, that_another_peer_gives_back_is_room_for_all) {
  live_node receiver(small_budget());
  live_node first;
  live_node second;
  const auto first_to = first.meet(receiver);
  const auto second_to = second.meet(receiver);
  const unsigned of_first = flood(first, first_to, receiver, 4000, 7);
  // Short ones: a window of them is no flood of its own.
  const unsigned of_second = flood(second, second_to, receiver, 500, 8);
  ASSERT_LT(of_second, 10'000U);
  std::vector<std::byte> got(4000);
  for (unsigned i = 0; i < of_first; ++i) {
    ASSERT_EQ(receiver.receive(memory_of(got.data(), got.size()), 7, number(1)), 0);
    ASSERT_EQ(wait(receiver, {&receiver, &first}).error, 0);
  }
  char wanted = 0;
  ASSERT_EQ(receiver.receive(memory_of(&wanted, 1), 99, number(99)), 0);
  char said = 'x';
  ASSERT_EQ(post({&second, &receiver},
                 [&] { return second.send(second_to, memory_of(&said, 1), 99, number(99)); }),
            0);
  EXPECT_EQ(wait(receiver, {&receiver, &second}).context, number(99));
}

}  // namespace
}  // namespace gaudi::proto
