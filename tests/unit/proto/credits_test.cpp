// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/credits.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace gaudi::proto {
namespace {

// Two ends of one class of messages. What one sends arrives in order, is kept for a while, and is
// consumed.
struct two_ends {
  explicit two_ends(std::uint16_t window) {
    sender.start(window, 0);
    receiver.start(0, window);
  }

  bool send() {
    if (!sender.can_send()) return false;
    sender.sent();
    ++on_the_wire;
    return true;
  }
  void arrive() {
    --on_the_wire;
    EXPECT_TRUE(receiver.arrived());
    ++held;
  }
  void consume(std::uint16_t target) {
    --held;
    receiver.consumed(target);
    if (receiver.return_is_due()) sender.returned(receiver.take_returnable());
  }

  credit_window sender;
  credit_window receiver;
  unsigned on_the_wire = 0;
  unsigned held = 0;
};

TEST(credits, a_window_is_all_that_may_be_outstanding) {
  two_ends ends(8);
  int sent = 0;
  while (ends.send()) ++sent;
  EXPECT_EQ(sent, 8);
}

TEST(credits, a_window_that_begins_anew_has_nothing_of_before) {
  credit_window w;
  for (int times = 0; times < 2; ++times) {
    w.start(0, 4);
    EXPECT_EQ(w.held(), 0U);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(w.arrived());
    EXPECT_EQ(w.held(), 4U);
    EXPECT_FALSE(w.arrived());
  }
}

TEST(credits, a_sender_that_only_sends_is_never_left_without_credits) {
  two_ends ends(8);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(ends.send()) << "message " << i;
    ends.arrive();
    ends.consume(8);
  }
}

// Kept messages (unexpected ones beyond the limit) must not keep the credits of consumed ones.
TEST(credits, kept_messages_do_not_stop_the_return_of_the_others) {
  two_ends ends(64);
  while (ends.send()) ends.arrive();
  const unsigned kept = 40;
  while (ends.held > kept) ends.consume(64);
  EXPECT_TRUE(ends.sender.can_send());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(ends.send()) << "message " << i;
    ends.arrive();
    ends.consume(64);
  }
}

TEST(credits, one_message_carries_at_most_255_credits_and_loses_none) {
  credit_window w;
  w.start(0, 1000);
  for (int i = 0; i < 600; ++i) EXPECT_TRUE(w.arrived());
  for (int i = 0; i < 600; ++i) w.consumed(1000);
  EXPECT_EQ(w.take_returnable(), 255);
  EXPECT_EQ(w.take_returnable(), 255);
  EXPECT_EQ(w.take_returnable(), 90);
  EXPECT_EQ(w.take_returnable(), 0);
}

TEST(credits, the_window_moves_to_its_target_both_ways) {
  two_ends ends(64);
  const auto pass = [&](std::uint16_t target) {
    ASSERT_TRUE(ends.send());
    ends.arrive();
    ends.consume(target);
  };
  for (int i = 0; i < 500; ++i) pass(4);
  EXPECT_EQ(ends.receiver.granted(), 4U);
  for (int i = 0; i < 500; ++i) pass(32);
  EXPECT_EQ(ends.receiver.granted(), 32U);
}

// Whatever the schedule: never more outstanding than granted, and no stall once everything is
// consumed.
// Of those that are kept the peer cannot hear, but it may be short all the same.
TEST(credits, are_worth_a_message_once_half_of_the_window_is_used) {
  credit_window receiver;
  receiver.start(0, 8);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(receiver.arrived());
  receiver.consumed(8);
  receiver.consumed(8);
  EXPECT_FALSE(receiver.return_is_due()) << "two, and one that is kept";
  EXPECT_TRUE(receiver.arrived());
  EXPECT_TRUE(receiver.return_is_due()) << "two, and two that are kept";
}

TEST(credits, that_are_given_up_are_those_beyond_what_is_kept) {
  two_ends ends(8);
  EXPECT_EQ(ends.sender.release_beyond(8), 0U);
  EXPECT_EQ(ends.sender.release_beyond(9), 0U);
  EXPECT_EQ(ends.sender.available(), 8U) << "there was none beyond";
  EXPECT_EQ(ends.sender.release_beyond(2), 6U);
  EXPECT_EQ(ends.receiver.may_be_released(), 8U);
  ends.receiver.released(6);
  EXPECT_EQ(ends.receiver.granted(), 2U);
  int sent = 0;
  while (ends.send()) ++sent;
  EXPECT_EQ(sent, 2);
}

TEST(credits, hold_over_random_schedules) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    two_ends ends(static_cast<std::uint16_t>(4 + random() % 61));
    for (int step = 0; step < 5000; ++step) {
      const auto target = static_cast<std::uint16_t>(4 + random() % 61);
      switch (random() % 3) {
        case 0:
          ends.send();
          break;
        case 1:
          if (ends.on_the_wire) ends.arrive();
          break;
        default:
          if (ends.held) ends.consume(target);
      }
      ASSERT_LE(ends.on_the_wire + ends.held + ends.sender.available(), ends.receiver.granted())
          << "seed " << seed;
    }
    while (ends.on_the_wire) ends.arrive();
    while (ends.held) ends.consume(4);
    EXPECT_TRUE(ends.sender.can_send()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gaudi::proto
