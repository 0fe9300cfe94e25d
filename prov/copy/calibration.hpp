// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "copy/copy_table.hpp"

namespace gaudi::copy {

/// What a calibration measures with. Times in nanoseconds; nothing: it could not be done, and
/// nothing else can.
class copy_probe {
 public:
  /// Longest range that can be asked for, in bytes.
  static constexpr std::uint64_t most = std::uint64_t{1} << 20;

  virtual ~copy_probe() = default;
  copy_probe(const copy_probe&) = delete;
  copy_probe& operator=(const copy_probe&) = delete;

  virtual double now() = 0;
  /// Of the CPU's time, what the calling thread has taken.
  virtual double spent() = 0;
  /// Whether copies of this direction may be made; those that may not are not asked for.
  [[nodiscard]] virtual bool allows(direction dir) const noexcept = 0;
  /// `count` copies of `length` bytes, given to the engine at once, until the end of the last.
  virtual std::optional<double> copies(direction dir, std::uint64_t length, unsigned count) = 0;
  /// Pinning host memory in use for the device, and letting go of it.
  virtual std::optional<double> pin(std::uint64_t length) = 0;
  /// The CPU's copy from host memory to host memory.
  virtual std::optional<double> host_copy(std::uint64_t length) = 0;

 protected:
  copy_probe() = default;
};

/// The calling thread's CPU time for all of a calibration, but for the copy that is under way when
/// it is over. By the clock it may take a few times as long, where others have the CPU meanwhile.
inline constexpr std::chrono::milliseconds calibration_budget{20};
inline constexpr int calibration_patience = 5;

/// Measures. Each figure is the least of several, as whatever else the machine does can only make a
/// copy longer; what the budget has no time for, or makes no sense, stays at its default. Copies to
/// a device that may not be made are taken to be like those from it: one link, of two equal ways.
copy_table calibrated(copy_probe& with, std::chrono::nanoseconds budget = calibration_budget);

}  // namespace gaudi::copy
