// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"

namespace gaudi::proto {

/// When to look at the core's events, of which each look is a system call: they come in swarms, or
/// not for long. Not thread safe.
class poll_pacer {
 public:
  /// Whether a poll that may find nothing asks for the time: reading the clock costs as much as
  /// such a poll, so only every so many of them do. Where polls are seldom each of them does, so
  /// that an application which computes most of the time hears of what came at its next one.
  [[nodiscard]] bool is_clock_due() noexcept { return ++idle_polls_ >= polls_per_clock_; }
  void clock_was_read(base::clock::time_point now) noexcept {
    polls_per_clock_ = now - last_read_ > idle_polls_ * seldom ? 1 : max_polls_per_clock;
    last_read_ = now;
    idle_polls_ = 0;
  }
  /// The polls from here on are counted.
  void start_over() noexcept { idle_polls_ = 0; }
  /// Whoever looks now may sleep next, and the first poll after that asks for the time.
  void may_sleep() noexcept { idle_polls_ = max_polls_per_clock - 1; }

  [[nodiscard]] bool is_look_due(base::clock::time_point now) noexcept {
    if (now - last_look_ < interval_) return false;
    last_look_ = now;
    return true;
  }
  /// The next look waits twice as long.
  void slow_down() noexcept {
    interval_ = std::min<base::clock::duration>(2 * interval_, max_interval);
  }
  void event_came() noexcept { interval_ = min_interval; }

 private:
  static constexpr unsigned max_polls_per_clock = 8;
  static constexpr std::chrono::milliseconds seldom{1};  // between two polls
  static constexpr std::chrono::microseconds min_interval{200};
  static constexpr std::chrono::milliseconds max_interval{5};

  unsigned idle_polls_ = 0;  // since the clock was read
  unsigned polls_per_clock_ = max_polls_per_clock;
  base::clock::time_point last_read_{};
  base::clock::duration interval_ = min_interval;
  base::clock::time_point last_look_{};
};

}  // namespace gaudi::proto
