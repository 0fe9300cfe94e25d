// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/clock.hpp"

namespace gaudi::proto {

/// How many connections an endpoint has room for (FI_GAUDI_MAX_CONNECTIONS). The connection_closer
/// closes idle ones before there are as many; where none is idle, another one is made all the same
/// after a while: what all of them wait for may be what that one brings.
///
/// Not thread safe: the caller holds the domain lock.
class connection_room {
 public:
  /// `most`: 0 for any number.
  connection_room(std::size_t most, base::clock clock) noexcept : most_(most), clock_(clock) {}

  /// Asked when another one is wanted and there are `open`: whether it has to wait until one of
  /// them is closed.
  [[nodiscard]] bool is_full(std::size_t open) noexcept {
    if (most_ == 0 || open < most_) [[likely]] {
      full_since_ = {};
      return false;
    }
    const auto now = clock_.now();
    if (full_since_ == base::clock::time_point{}) full_since_ = now;
    return now - full_since_ < patience;
  }

  /// How many of `open` are to be closed: none until there is little room, and then some more than
  /// that, so that not each new one has to look for another that is idle.
  [[nodiscard]] static std::size_t surplus(std::size_t most, std::size_t open) noexcept {
    const auto without = [&](std::size_t part) {
      return most - std::max<std::size_t>(1, most / part);
    };
    if (most == 0 || open <= without(16)) return 0;
    return open - without(8);
  }

 private:
  static constexpr base::clock::duration patience = std::chrono::seconds(1);

  const std::size_t most_;
  const base::clock clock_;
  base::clock::time_point full_since_{};
};

}  // namespace gaudi::proto
