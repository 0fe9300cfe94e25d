// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ipc/byte_ring.hpp"

namespace gaudi::ipc::test {

/// A ring with both of its ends, which copy packets in and out.
template <std::size_t bytes>
struct ring_of {
  ring_control control;
  alignas(8) std::byte data[bytes]{};
  ring_writer in{control, data, bytes};
  ring_reader out{control, data, bytes};

  bool put(const std::vector<std::byte>& packet) {
    std::byte* const room = in.reserve(packet.size());
    if (!room) return false;
    std::memcpy(room, packet.data(), packet.size());
    EXPECT_FALSE(in.commit(false));
    return true;
  }
  std::vector<std::byte> get() {
    const auto packet = out.front();
    std::vector<std::byte> copy(packet.size());
    if (packet.empty()) return copy;
    std::memcpy(copy.data(), packet.data(), packet.size());
    out.pop();
    return copy;
  }
};

inline std::vector<std::byte> packet_of(std::uint64_t number, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i);
  return bytes;
}

}  // namespace gaudi::ipc::test
