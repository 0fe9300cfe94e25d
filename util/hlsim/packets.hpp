// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace hlsim {

/// Opcodes of the queue managers: reference, section 5.1.
enum class opcode : uint32_t {
  wreg_32 = 1,
  wreg_bulk = 2,
  msg_long = 3,
  msg_short = 4,
  cp_dma = 5,
  repeat = 6,
  msg_prot = 7,
  fence = 8,
  lin_dma = 9,
  nop = 10,
  stop = 11,
  arb_point = 12,
  load_and_exe = 15,
};

/// One packet of a command buffer.
struct packet {
  opcode op;
  uint32_t bytes;  ///< of the packet itself
  uint32_t size;   ///< lin_dma, cp_dma: bytes to move
  bool memset;     ///< lin_dma: `source` is a pattern
  uint64_t source, destination;
  bool waits = false;  ///< for the engine to be done with all before it (EB)
};

/// The packet at the start of `buffer`, as a queue manager of that generation takes it; nothing
/// when it is cut short, or not one that the simulated ones carry out.
std::optional<packet> decode(std::span<const char> buffer, uint32_t generation) noexcept;

/// What Gaudi1's driver says to a command buffer for one of its DMA queues, section 5.2: 0; EPERM,
/// a packet that users may not send; EINVAL, not a packet, or one that is cut short.
int check_gaudi1_buffer(std::span<const char> buffer) noexcept;

}  // namespace hlsim
