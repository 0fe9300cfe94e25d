// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "mover.hpp"
#include "settings.hpp"

namespace hlsim {

/// The time that transfers take on the simulated links: one link per direction, shared by the
/// queues. Time is booked, not measured: a late wake-up does not slow down the transfers behind it,
/// so the rate holds over a stream.
class pace {
 public:
  explicit pace(const settings& s) noexcept : rates_{s.h2d, s.d2h, s.d2d} {}

  /// Books `bytes` on the link, not before `ready_ns`. Gives the moment the last byte arrives;
  /// `ready_ns` when the link has no rate.
  uint64_t book(direction link, uint64_t bytes, uint64_t ready_ns);

 private:
  const std::array<double, 3> rates_;  ///< bytes per nanosecond
  std::mutex mutex_;
  std::array<uint64_t, 3> busy_until_{};
};

/// Sleeps until `due_ns` (CLOCK_MONOTONIC), in steps so that `stop` is noticed soon. The last
/// microseconds are spun. The thread should have called prepare_to_sleep.
void sleep_until(uint64_t due_ns, const std::atomic<bool>& stop) noexcept;

/// Makes the calling thread wake within microseconds of the time it asked for.
void prepare_to_sleep() noexcept;

}  // namespace hlsim
