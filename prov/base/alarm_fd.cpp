// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/alarm_fd.hpp"

#include <sys/timerfd.h>

#include <cerrno>

namespace gaudi::base {

result<alarm_fd> alarm_fd::open() noexcept {
  scoped_fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return error{-errno};
  return alarm_fd(std::move(timer));
}

void alarm_fd::set(std::chrono::nanoseconds after) noexcept {
  if (!timer_) return;
  after_ = after;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
  const itimerspec when{
      .it_interval = {},
      .it_value = {.tv_sec = seconds.count(), .tv_nsec = (after - seconds).count()}};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace gaudi::base
