// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "packets.hpp"

#include <cstring>

namespace hlsim {
namespace {

template <class T>
T field(std::span<const char> buffer, size_t offset) noexcept {
  T value{};
  std::memcpy(&value, buffer.data() + offset, sizeof value);
  return value;
}

uint32_t length_of(uint32_t op) noexcept {
  switch (static_cast<opcode>(op)) {
    case opcode::lin_dma:
      return 24;
    case opcode::msg_long:
    case opcode::cp_dma:
      return 16;
    case opcode::msg_short:
    case opcode::nop:
      return 8;
  }
  return 0;
}

}  // namespace

std::optional<packet> decode(std::span<const char> buffer) noexcept {
  if (buffer.size() < 8) return std::nullopt;
  const auto control = field<uint32_t>(buffer, 4);
  const uint32_t op = control >> 24 & 0x1f;
  const uint32_t bytes = length_of(op);
  if (bytes == 0 || bytes > buffer.size()) return std::nullopt;
  packet p{static_cast<opcode>(op), bytes, field<uint32_t>(buffer, 0),
           (control >> 4 & 1) != 0, 0,     0};
  if (bytes >= 16) p.source = field<uint64_t>(buffer, 8);
  if (bytes >= 24) p.destination = field<uint64_t>(buffer, 16);
  return p;
}

}  // namespace hlsim
