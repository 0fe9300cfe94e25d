// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>

namespace gaudi::base {

/// The monotonic clock that pauses and limits of waits are measured by: the machine's, or one that
/// a test drives. A copy reads the same clock. As thread safe as its source.
class clock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using time_point = std::chrono::steady_clock::time_point;

  /// A clock of a test's. It outlives all copies of the clock made from it.
  class source {
   public:
    virtual time_point now() noexcept = 0;

   protected:
    ~source() = default;
  };

  /// The machine's.
  clock() noexcept = default;
  explicit clock(source& driven) noexcept : source_(&driven) {}

  [[nodiscard]] time_point now() const noexcept {
    return source_ ? source_->now() : std::chrono::steady_clock::now();
  }

 private:
  source* source_ = nullptr;
};

}  // namespace gaudi::base
