// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gaudi::base {

/// What the user wants of the copies of one direction, in bytes; nothing: as measured.
struct copy_override {
  static constexpr std::uint64_t never = UINT64_MAX;  ///< "off"
  static constexpr std::uint64_t least = 4096;
  static constexpr std::uint64_t most = std::uint64_t{1} << 40;

  std::optional<std::uint64_t> pin;    ///< host memory is pinned for a copy from this length on
  std::optional<std::uint64_t> split;  ///< a copy is split over queues from this length on
  std::optional<std::uint64_t> chunk;  ///< staged data goes in pieces of this length
  std::optional<std::uint64_t> nic;    ///< a NIC copies messages up to this length; 0: none

  friend bool operator==(const copy_override&, const copy_override&) = default;
};

/// The user's word on the copy table of every device: FI_GAUDI_COPY_TABLE.
struct copy_overrides {
  bool calibrate = true;                    ///< false: defaults in place of what would be measured
  std::array<copy_override, 3> directions;  ///< h2d, d2h, d2d

  [[nodiscard]] const copy_override& to_device() const noexcept { return directions[0]; }

  friend bool operator==(const copy_overrides&, const copy_overrides&) = default;

  /// Parts with ';' between them: "auto" (nothing else is said by it), "off", or a direction with
  /// what is fixed for it: "h2d:pin=64K,split=1M,chunk=256K,nic=16K". pin, split and nic may be
  /// off; d2d has only split, and nic only h2d. Numbers as parse_number takes them, from `least` to
  /// `most`. Nothing: not that.
  static std::optional<copy_overrides> parse(std::string_view text);
};

}  // namespace gaudi::base
