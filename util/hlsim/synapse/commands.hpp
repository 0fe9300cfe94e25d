// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <span>

#include "packets.hpp"

namespace synsim {

/// The packet of a copy or a fill, as the device's engines take it. Reference, section 5.1.
struct lin_dma {
  uint32_t size;  ///< bytes
  uint32_t control;
  uint64_t source;  ///< of a fill: the pattern
  uint64_t destination;
};
static_assert(sizeof(lin_dma) == 24);
inline constexpr uint32_t copy_control =
    static_cast<uint32_t>(hlsim::opcode::lin_dma) << 24 | 1U << 31;
inline constexpr uint32_t fill_control = copy_control | 1U << 4;
/// Most bytes of one packet.
inline constexpr uint64_t packet_limit = 2ULL << 30;

/// Starts packets in order with all that was started on the same channel. Waits while too much is
/// in flight. The number of the submission; 0: the device takes none.
uint64_t submit(int fd, uint32_t channel, std::span<const lin_dma> packets);

/// How a submission of any age goes: 0 it ended well, -EBUSY not yet (after `timeout_us`), else the
/// driver's -errno.
int outcome_of(int fd, uint64_t submission, uint64_t timeout_us);

}  // namespace synsim
