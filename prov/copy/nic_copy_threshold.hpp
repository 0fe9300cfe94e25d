// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/copy_overrides.hpp"
#include "copy/copy_table.hpp"

namespace gaudi::copy {

/// Up to which length a NIC that reaches the device copies a short message there, rather than the
/// device's engine: as the user says, or as the table has it until the NIC's first copies of a
/// length have been timed, and compared with what was measured of the engine. From then on less
/// where the engine is clearly sooner. Not thread safe.
class nic_copy_threshold {
 public:
  /// Copies of about one length that are timed before they are judged.
  static constexpr unsigned first_copies = 16;

  explicit nic_copy_threshold(const base::copy_overrides& wanted) noexcept;

  /// In bytes; 0: none. A power of two, unless the user said otherwise.
  [[nodiscard]] std::uint64_t limit() const noexcept { return most_; }
  /// Whether a copy of this length (> 0) by the NIC is still to be timed.
  [[nodiscard]] bool wants_time(std::uint64_t length) const noexcept {
    return is_open_ && length <= most_ && classes_[class_of(length)].copies < first_copies;
  }
  /// One that was took so long. Whether there are enough of about its length now, for judge().
  bool add_sample(std::uint64_t length, double ns) noexcept;
  /// Compares the least time of copies of about this length with the engine's; a flush of what the
  /// NIC wrote is another short copy. Whether there is a lower limit now. An engine of which
  /// nothing was measured changes nothing.
  bool update(std::uint64_t length, const copy_row& engine, bool flushes) noexcept;

 private:
  struct one_class {
    double min_ns = std::numeric_limits<double>::infinity();
    unsigned copies = 0;
  };
  // Up to 4 KiB, 8 KiB, ... and what is longer.
  static constexpr std::uint64_t shortest = 4096;
  static constexpr unsigned class_count = 5;
  static unsigned class_of(std::uint64_t length) noexcept;

  std::uint64_t most_;
  const bool is_open_;  // not the user's word, and to be measured
  std::array<one_class, class_count> classes_;
};

}  // namespace gaudi::copy
