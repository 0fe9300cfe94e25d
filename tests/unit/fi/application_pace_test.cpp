// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// From which pace on progress is left to the application.
#include "fi/rdm/application_pace.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace gaudi::fi {
namespace {

using namespace std::chrono_literals;

class pace_of_application : public testing::Test {
 protected:
  /// Whether it is often to poll so many times in so long.
  bool is_often(unsigned polls, std::chrono::nanoseconds in) {
    now += in;
    made += polls;
    return pace.is_often(now, made);
  }

  application_pace::time_point now{1s};
  unsigned made = 0;
  application_pace pace{now};
};

TEST_F(pace_of_application, is_seldom_where_it_does_not_poll) {
  EXPECT_FALSE(is_often(0, 1ns));
}

TEST_F(pace_of_application, is_often_from_four_polls_a_millisecond_on) {
  EXPECT_FALSE(is_often(4, 1ms));
  EXPECT_TRUE(is_often(5, 1ms));
  EXPECT_FALSE(is_often(5, 2ms));
}

TEST_F(pace_of_application, is_of_the_time_since_the_last_look) {
  EXPECT_TRUE(is_often(1000, 1ms));
  EXPECT_FALSE(is_often(1, 1ms));
}

TEST_F(pace_of_application, is_known_when_the_number_of_polls_wraps_around) {
  made = std::numeric_limits<unsigned>::max() - 2;
  EXPECT_TRUE(is_often(0, 1ms));
  EXPECT_TRUE(is_often(5, 1ms));
  EXPECT_FALSE(is_often(4, 1ms));
}

TEST_F(pace_of_application, may_be_slower_where_to_wake_costs_more) {
  pace.woken_for(50us);
  EXPECT_EQ(pace.interval(), 800us);
  EXPECT_TRUE(is_often(2, 1500us));
  EXPECT_FALSE(is_often(2, 1600us));
}

TEST_F(pace_of_application, may_not_be_faster_where_to_wake_costs_little) {
  pace.woken_for(1us);
  EXPECT_EQ(pace.interval(), 250us);
}

TEST_F(pace_of_application, is_never_so_slow_that_no_look_finds_a_poll) {
  pace.woken_for(1s);
  EXPECT_EQ(pace.interval(), application_pace::max_interval);
}

TEST_F(pace_of_application, does_not_count_what_was_work) {
  pace.woken_for(20us);
  pace.woken_for(500us);
  EXPECT_LT(pace.interval(), 400us);
  pace.woken_for(20us);
  EXPECT_EQ(pace.interval(), 320us);
}

TEST_F(pace_of_application, follows_a_machine_that_becomes_slower) {
  pace.woken_for(1us);
  for (int i = 0; i < 100; ++i) pace.woken_for(50us);
  EXPECT_EQ(pace.interval(), 800us);
}

}  // namespace
}  // namespace gaudi::fi
