// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "common/let_others_run.hpp"

namespace gaudi::common {

/// Ends the run: nothing was done for as long as the user allows.
class no_progress : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Polling that neither keeps the processor from a peer on the same machine nor lasts for ever.
class patience {
 public:
  explicit patience(std::chrono::seconds limit) : limit_(limit) {}

  /// After a poll that found something.
  void reward() { idle_ = 0; }

  /// After a poll that found nothing. True now and then: time for what need not be looked at each
  /// time. A no_progress when nothing has been found for the limit; `what` names what was waited
  /// for.
  bool spend(std::string_view what) {
    if (++idle_ == 1) end_ = {};
    if (idle_ < polls_before_yield) return false;
    let_others_run();
    if (idle_ % polls_per_look != 0) return false;
    const auto now = clock::now();
    if (end_ == clock::time_point{}) end_ = now + limit_;
    if (now > end_)
      throw no_progress(fmt::format("no progress for {} s in {}", limit_.count(), what));
    return true;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr unsigned polls_before_yield = 64;
  static constexpr unsigned polls_per_look = 1024;

  std::chrono::seconds limit_;
  clock::time_point end_{};
  std::uint64_t idle_ = 0;
};

}  // namespace gaudi::common
