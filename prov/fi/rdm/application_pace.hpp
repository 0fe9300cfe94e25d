// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace gaudi::fi {

/// Whether an application polls often enough for progress to be left to it. One that polls seldom
/// is taken to be computing, and its operations go on in the meantime.
///
/// What is seldom depends on the machine: a thread that is woken for what the application would
/// have found a little later takes the CPU, the lock and the caches from it, so that must cost a
/// small part of the time that it saves. Not thread safe.
class application_pace {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using nanoseconds = std::chrono::nanoseconds;

  /// The time of a poll is known as exactly as this: nobody looks more often.
  static constexpr nanoseconds max_interval = std::chrono::milliseconds(1);

  explicit application_pace(time_point now) noexcept : looked_at_(now) {}

  /// Since the last time that this was asked. `polls`: of the application's so far, which wrap
  /// around.
  [[nodiscard]] bool is_often(time_point now, unsigned polls) noexcept {
    const auto since = now - std::exchange(looked_at_, now);
    const unsigned count = polls - std::exchange(seen_polls_, polls);
    return count * interval() > since;
  }
  /// The thread has used so much CPU time from one sleep to the next. Some of that can be work that
  /// the application would have had, so the least counts, of late.
  void woken_for(nanoseconds cpu_time) noexcept {
    constexpr int forgotten = 8;
    const nanoseconds rising = cost_ + cost_ / forgotten + nanoseconds(1);
    cost_ = cost_ == nanoseconds(0) ? cpu_time : std::min(cpu_time, rising);
  }

  /// Who polls less often than this polls seldom.
  [[nodiscard]] nanoseconds interval() const noexcept {
    constexpr nanoseconds min_interval = std::chrono::microseconds(250);
    constexpr int times_its_cost = 16;
    return std::clamp(times_its_cost * cost_, min_interval, max_interval);
  }

 private:
  time_point looked_at_;
  unsigned seen_polls_ = 0;
  nanoseconds cost_{0};
};

}  // namespace gaudi::fi
