// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/poll_pacer.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;

class poll_pacer_by_hand : public testing::Test {
 protected:
  // How many of so many polls, each so long after the last one, ask for the time.
  unsigned asked_in(unsigned polls, std::chrono::microseconds apart) {
    unsigned asked = 0;
    for (unsigned i = 0; i < polls; ++i) {
      now_ += apart;
      if (!pacer_.is_clock_due()) continue;
      pacer_.clock_was_read(now_);
      ++asked;
    }
    return asked;
  }

  poll_pacer pacer_;
  base::clock::time_point now_{1h};
};

TEST_F(poll_pacer_by_hand, asks_for_the_time_once_in_eight_polls) {
  asked_in(16, 1us);  // the first time says nothing
  EXPECT_EQ(asked_in(80, 1us), 10U);
  EXPECT_EQ(asked_in(80, 900us), 10U);
}

TEST_F(poll_pacer_by_hand, asks_for_the_time_at_each_poll_where_they_are_seldom) {
  asked_in(16, 1us);
  asked_in(8, 300ms);  // one of these finds it out
  EXPECT_EQ(asked_in(20, 300ms), 20U);
  EXPECT_EQ(asked_in(20, 2ms), 20U);
}

TEST_F(poll_pacer_by_hand, asks_seldom_again_where_they_are_many) {
  asked_in(40, 300ms);
  EXPECT_EQ(asked_in(1, 1us), 1U);
  EXPECT_EQ(asked_in(80, 1us), 10U);
}

TEST_F(poll_pacer_by_hand, asks_at_the_first_poll_behind_a_sleep) {
  asked_in(16, 1us);
  pacer_.may_sleep();
  EXPECT_EQ(asked_in(1, 1us), 1U);
}

TEST_F(poll_pacer_by_hand, counts_the_polls_behind_one_that_found_something) {
  ASSERT_EQ(asked_in(9, 1us), 2U) << "the first time says nothing";
  EXPECT_EQ(asked_in(7, 1us), 0U);
  pacer_.start_over();
  EXPECT_EQ(asked_in(7, 1us), 0U);
  EXPECT_EQ(asked_in(1, 1us), 1U);
}

TEST_F(poll_pacer_by_hand, looks_less_often_while_nothing_comes) {
  EXPECT_TRUE(pacer_.is_look_due(now_));
  EXPECT_FALSE(pacer_.is_look_due(now_ + 199us));
  EXPECT_TRUE(pacer_.is_look_due(now_ + 200us));
  for (int i = 0; i < 10; ++i) pacer_.slow_down();
  EXPECT_FALSE(pacer_.is_look_due(now_ + 5ms));
  EXPECT_TRUE(pacer_.is_look_due(now_ + 5200us));
  pacer_.event_came();
  EXPECT_TRUE(pacer_.is_look_due(now_ + 5400us));
}

}  // namespace
}  // namespace gaudi::proto
