// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/alarm_fd.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

namespace gaudi::base {
namespace {

using namespace std::chrono_literals;

bool is_readable(const alarm_fd& alarm, int milliseconds) {
  pollfd one{.fd = alarm.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, milliseconds) == 1;
}

TEST(alarm_fd, wakes_who_polls_and_is_quiet_when_set_again) {
  auto alarm = alarm_fd::open();
  ASSERT_TRUE(alarm);
  EXPECT_FALSE(is_readable(*alarm, 0));
  alarm->set(1ms);
  EXPECT_TRUE(is_readable(*alarm, -1));
  alarm->set(1h + 1ns);
  EXPECT_FALSE(is_readable(*alarm, 0));
  alarm->set(1ns);
  EXPECT_TRUE(is_readable(*alarm, -1));
  alarm->set(0ns);
  EXPECT_FALSE(is_readable(*alarm, 0));
}

TEST(alarm_fd, may_be_none) {
  alarm_fd none;
  none.set(1ms);
  EXPECT_EQ(none.fd(), -1);
}

}  // namespace
}  // namespace gaudi::base
