// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "base/waker.hpp"

namespace gaudi::base {

/// Counts operations that ended, and those that failed (fi_cntr(3)). Not thread safe: the caller
/// holds the domain lock.
class counter {
 public:
  /// `sleeper`, if any, is told of every change; it outlives the counter.
  explicit counter(waker* sleeper = nullptr) noexcept : sleeper_(sleeper) {}

  void count(int error) noexcept { error ? add_errors(1) : add(1); }
  void add(std::uint64_t n) noexcept { change(value_, value_ + n); }
  void add_errors(std::uint64_t n) noexcept { change(errors_, errors_ + n); }
  void set(std::uint64_t n) noexcept { change(value_, n); }
  void set_errors(std::uint64_t n) noexcept { change(errors_, n); }

  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }
  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_; }

 private:
  void change(std::uint64_t& field, std::uint64_t to) noexcept {
    field = to;
    if (sleeper_) sleeper_->notify();
  }

  std::uint64_t value_ = 0;
  std::uint64_t errors_ = 0;
  waker* const sleeper_;
};

}  // namespace gaudi::base
