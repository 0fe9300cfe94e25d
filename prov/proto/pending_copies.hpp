// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/slot_table.hpp"
#include "copy/dma_engine.hpp"
#include "ipc/joint_copy.hpp"

namespace gaudi::proto {

struct buffer;
struct transfer;
struct work;

/// A copy between a buffer and device memory, or within a device, that the engine has under way, or
/// will have when it has room for it: other endpoints use it as well.
struct device_copy {
  copy::dma_engine* engine;
  copy::ticket ticket;
  buffer* chunk;
  // Of one that waits for room.
  std::uint64_t dst = 0;
  std::uint64_t src = 0;
  std::size_t length = 0;  // 0: it does not
  copy::direction dir = copy::direction::host_to_device;

  [[nodiscard]] bool waits() const noexcept { return length != 0; }
  /// Whether that one is of device memory in [address, address + size).
  [[nodiscard]] bool waits_for(std::uint64_t address, std::size_t size) const noexcept {
    return waits() && (dir == copy::direction::host_to_device ? dst : src) - address < size;
  }
};

/// A copy between processes that has been made, and whose end nobody has been told yet.
struct local_copy {
  work* done;
  std::size_t length;
  int error;  // positive FI_E*
};

/// A copy of a peer's that it asked us to help with.
struct helping {
  base::slot_table<transfer>::id source;  // whose memory it copies
  ipc::joint_copy copy;
  std::uint64_t to;  // in the peer's memory
};

}  // namespace gaudi::proto
