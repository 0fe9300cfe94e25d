// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <utility>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::base {

/// Wakes a thread that sleeps in poll(2) after a time (timerfd_create(2), CLOCK_MONOTONIC). Not
/// thread safe but for poll(2).
class alarm_fd {
 public:
  /// -FI_EMFILE and others of timerfd_create(2).
  static result<alarm_fd> open() noexcept;

  /// Never readable.
  alarm_fd() noexcept = default;

  /// -1: there is none.
  [[nodiscard]] int fd() const noexcept { return timer_.get(); }

  /// Readable after so long, and not before; 0: not at all. Nothing without fd().
  void set(std::chrono::nanoseconds after) noexcept;
  /// What it was set to last.
  [[nodiscard]] std::chrono::nanoseconds was_set_to() const noexcept { return after_; }

 private:
  explicit alarm_fd(scoped_fd timer) noexcept : timer_(std::move(timer)) {}

  scoped_fd timer_;
  std::chrono::nanoseconds after_{};
};

}  // namespace gaudi::base
