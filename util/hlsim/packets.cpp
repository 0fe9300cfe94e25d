// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "packets.hpp"

#include <cerrno>
#include <cstring>

namespace hlsim {
namespace {

constexpr uint32_t linear_bit = 1U << 3;  // Gaudi1's lin_dma: not a tensor
// What changes the data on its way: of Gaudi1 transposing and compression, of Gaudi2 swaps of
// bytes, conversion of numbers and offsets.
constexpr uint32_t gaudi1_changes = 1U << 1 | 1U << 5 | 1U << 6;
constexpr uint32_t gaudi2_changes = 3U << 1 | 1U << 6 | 1U << 7 | 1U << 9;
constexpr uint32_t engine_barrier_bit = 1U << 29;
constexpr uint32_t register_barrier_bit = 1U << 30;                // Gaudi1: always set
constexpr uint64_t gaudi1_address_bits = (uint64_t{1} << 56) - 1;  // a context id lies above

template <class T>
T field(std::span<const char> buffer, size_t offset) noexcept {
  T value{};
  std::memcpy(&value, buffer.data() + offset, sizeof value);
  return value;
}

opcode opcode_of(uint32_t control) noexcept {
  return static_cast<opcode>(control >> 24 & 0x1f);
}

/// 0: not known.
uint32_t length_of(opcode op) noexcept {
  switch (op) {
    case opcode::lin_dma:
      return 24;
    case opcode::msg_long:
    case opcode::cp_dma:
      return 16;
    case opcode::msg_short:
    case opcode::nop:
      return 8;
    default:
      return 0;
  }
}

/// The length of a packet that Gaudi1's users may send, or -errno.
int allowed_length(opcode op) noexcept {
  switch (op) {
    case opcode::msg_prot:
    case opcode::cp_dma:
    case opcode::stop:
    case opcode::wreg_bulk:
    // Only those that load a scalar are forbidden; the simulation could carry out none.
    case opcode::load_and_exe:
      return -EPERM;
    case opcode::wreg_32:
    case opcode::repeat:
    case opcode::fence:
    case opcode::arb_point:
      return 8;
    default:
      break;
  }
  const auto known = static_cast<int>(length_of(op));
  return known != 0 ? known : -EINVAL;
}

/// What the simulation does as the device would. A message writes a register or a sync object, of
/// which it has none.
bool is_carried_out(opcode op, uint32_t control, uint32_t generation) noexcept {
  if (op == opcode::msg_long || op == opcode::msg_short) return false;
  return op != opcode::lin_dma ||
         (control & (generation == 1 ? gaudi1_changes : gaudi2_changes)) == 0;
}

}  // namespace

std::optional<packet> decode(std::span<const char> buffer, uint32_t generation) noexcept {
  if (buffer.size() < 8) return std::nullopt;
  const auto control = field<uint32_t>(buffer, 4);
  const opcode op = opcode_of(control);
  const uint32_t bytes = length_of(op);
  if (bytes == 0 || bytes > buffer.size()) return std::nullopt;
  if (!is_carried_out(op, control, generation)) return std::nullopt;
  packet p{op, bytes, field<uint32_t>(buffer, 0),         (control >> 4 & 1) != 0,
           0,  0,     (control & engine_barrier_bit) != 0};
  if (bytes >= 16) p.source = field<uint64_t>(buffer, 8);
  if (bytes >= 24) p.destination = field<uint64_t>(buffer, 16);
  if (generation != 1) return p;
  if ((control & register_barrier_bit) == 0) return std::nullopt;
  if (op == opcode::lin_dma && (control & linear_bit) == 0) return std::nullopt;
  p.destination &= gaudi1_address_bits;
  return p;
}

int check_gaudi1_buffer(std::span<const char> buffer) noexcept {
  while (!buffer.empty()) {
    if (buffer.size() < 8) return -EINVAL;
    const int bytes = allowed_length(opcode_of(field<uint32_t>(buffer, 4)));
    if (bytes < 0) return bytes;
    if (static_cast<size_t>(bytes) > buffer.size()) return -EINVAL;
    buffer = buffer.subspan(static_cast<size_t>(bytes));
  }
  return 0;
}

}  // namespace hlsim
