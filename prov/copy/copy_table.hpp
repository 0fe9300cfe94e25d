// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/copy_overrides.hpp"
#include "copy/direction.hpp"
#include "device/generation.hpp"

namespace gaudi::copy {

/// How copies of one direction are made. Lengths in bytes, `never` for those that none has.
struct copy_row {
  static constexpr std::uint64_t never = base::copy_override::never;

  double bytes_per_ns = 0;  ///< of the engine, on one queue or several; 0: nothing was measured
  double latency_ns = 0;    ///< of a short copy alone, from its submission to the word of its end
  double each_ns = 0;       ///< what a short copy adds to others in flight

  /// Host ranges from this length on are pinned for the copy, shorter ones pass through chunks:
  /// pinning a page costs more than copying it once, but a long range is copied twice otherwise.
  std::uint64_t pin = std::uint64_t{4} << 20;
  std::uint64_t split = never;  ///< copies from this length on use several queues
  std::uint64_t chunk = 0;      ///< of staged data, as the user wants it; 0: by what was measured

  [[nodiscard]] bool is_measured() const noexcept { return bytes_per_ns > 0; }
};

/// How the copies of one device are made, by direction: what calibrated() measured, or defaults,
/// and the user's word on top.
struct copy_table {
  double host_bytes_per_ns = 0;  ///< of the CPU's own copies; 0: not measured
  std::array<copy_row, 3> rows;
  /// Short messages to the device up to this length are copied by a NIC that reaches it, which
  /// takes no system call; 0: none. What an endpoint measures may lower it there
  /// (nic_copy_threshold).
  std::uint64_t nic = std::uint64_t{64} << 10;

  [[nodiscard]] copy_row& operator[](direction dir) noexcept {
    return rows[static_cast<std::size_t>(dir)];
  }
  [[nodiscard]] const copy_row& operator[](direction dir) const noexcept {
    return rows[static_cast<std::size_t>(dir)];
  }

  void apply(const base::copy_overrides& wanted) noexcept;
};

/// "h2d", as FI_GAUDI_COPY_TABLE has it.
const char* name_of(direction dir) noexcept;

/// "256K", "5000", or "off" for copy_row::never.
std::string length_text(std::uint64_t length);
/// The same of a limit, which is off where it is 0.
std::string limit_text(std::uint64_t most);

/// A row in a few words: rate, times, and from where on what is done.
std::string to_text(const copy_row& row);

/// Parts of a split copy, one for each queue of a direction.
inline constexpr unsigned split_parts = device::generation_traits::queues;

/// Bytes of each of the parts that a copy of `length` is given to the queues in: `length` itself
/// where it is not split.
std::uint64_t part_length(const copy_row& row, std::uint64_t length) noexcept;

/// What a chunk of staged data meets besides the copy.
struct pipeline_cost_model {
  double message_ns;  ///< the CPU's time for the messages of a chunk
  double exposed;     ///< the share of the CPU's time that is not hidden by copies under way
  double busy_from;   ///< bytes per ns: copies as fast as that hide none of it, as the CPU is busy
  double wait_ns;     ///< how long the word that a chunk may be used again takes
  unsigned stages;    ///< that a chunk goes through after the copy: the wire, the other copy
};

/// The chunk with which `length` bytes take the least time: long ones leave the later stages idle
/// until the first arrives, short ones cost submissions and messages, for which the CPU must have
/// the time. 0: nothing was measured, and the user has not said.
std::uint64_t best_chunk(const copy_row& row, std::uint64_t length,
                         const pipeline_cost_model& way) noexcept;

/// Chunks of `chunk` bytes in flight that keep the copy and all further stages busy: in each, one
/// at work and one that waits; and those that are elsewhere meanwhile. 0: nothing was measured.
unsigned best_depth(const copy_row& row, std::uint64_t chunk,
                    const pipeline_cost_model& way) noexcept;

}  // namespace gaudi::copy
