// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gaudi::base {

/// Why the bytes of a long transfer go the way that they go. The values are those of the page of
/// outstanding operations (fi_gaudi_counters(7)).
enum class path_reason : std::uint8_t {
  undecided = 0,
  one_device = 1,
  source_passes_dmabuf = 2,
  source_can_be_read = 3,
  source_asks_to_write = 4,
  source_is_kept = 5,
  no_import = 6,
  staging_is_chosen = 7,
  device_is_not_reached = 8,
  sink_is_kept = 9,
  core_reads_badly = 10,
};

/// Reasons, without undecided.
inline constexpr std::size_t path_reason_count = 10;

constexpr std::string_view name_of(path_reason why) noexcept {
  constexpr std::array<std::string_view, path_reason_count + 1> names{
      "undecided",          "one_device",           "source_passes_dmabuf",
      "source_can_be_read", "source_asks_to_write", "source_is_kept",
      "no_import",          "staging_is_chosen",    "device_is_not_reached",
      "sink_is_kept",       "core_reads_badly",
  };
  const auto at = static_cast<std::size_t>(why);
  return at < names.size() ? names[at] : std::string_view{};
}

/// For people: what comes behind "because". Empty for what is no reason.
constexpr std::string_view text_of(path_reason why) noexcept {
  constexpr std::array<std::string_view, path_reason_count + 1> texts{
      "",
      "both ends are memory of one device, in one process",
      "the sender passes a dma-buf of its device memory",
      "the sender's memory can be read from here",
      "the sender asks to write, as its memory is not to be read",
      "the kernel keeps the sender's memory from this process",
      "no NIC here reads device memory of the sender's process",
      "FI_GAUDI_RNDV=staged",
      "no NIC has this device memory registered",
      "the kernel keeps this process's memory from the sender",
      "a read over tcp is not safe before libfabric 1.18",
  };
  const auto at = static_cast<std::size_t>(why);
  return at < texts.size() ? texts[at] : std::string_view{};
}

}  // namespace gaudi::base
