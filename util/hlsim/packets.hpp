// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace hlsim {

/// Opcodes the simulated queue managers carry out: reference, section 5.1.
enum class opcode : uint32_t { msg_long = 3, msg_short = 4, cp_dma = 5, lin_dma = 9, nop = 10 };

/// One packet of a command buffer.
struct packet {
  opcode op;
  uint32_t bytes;  ///< of the packet itself
  uint32_t size;   ///< lin_dma, cp_dma: bytes to move
  bool memset;     ///< lin_dma: `source` is a pattern
  uint64_t source, destination;
};

/// The packet at the start of `buffer`; nothing when it is cut short or has an unknown opcode.
std::optional<packet> decode(std::span<const char> buffer) noexcept;

}  // namespace hlsim
