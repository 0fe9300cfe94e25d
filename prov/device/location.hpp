// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "base/scoped_fd.hpp"

namespace gaudi::device {

class pin_count;

/// Where a device range lies. Addresses are device addresses, lengths bytes.
struct location {
  std::uint64_t base = 0;      ///< first address of the allocation
  std::uint64_t len = 0;       ///< its length, as the caller asked for it
  std::uint64_t offset = 0;    ///< of the range's first byte in the allocation
  std::uint64_t map_base = 0;  ///< the driver's mapping that holds it, which is what is exported
  std::uint64_t map_len = 0;
  /// Different for each allocation made in this process, so that a cache can tell a new allocation
  /// at an old address.
  std::uint64_t allocation_id = 0;
  bool adopted = false;       ///< a range that the application owns
  pin_count* pins = nullptr;  ///< for device::pin
};

/// A dma-buf over the whole mapping that holds a range.
struct dmabuf {
  base::scoped_fd fd;           ///< the caller's own
  std::uint64_t offset = 0;     ///< of the range's first byte in the dma-buf
  std::uint64_t len = 0;        ///< bytes asked for
  std::uint64_t base_addr = 0;  ///< device address of the dma-buf's first byte
};

}  // namespace gaudi::device
