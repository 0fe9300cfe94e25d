// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>

#include "abi.hpp"

namespace hlsim {

/// A half-open range of device addresses.
struct va_range {
  uint64_t first;
  uint64_t end;
  [[nodiscard]] constexpr bool holds(uint64_t at, uint64_t size) const noexcept {
    return at >= first && at < end && size <= end - at;
  }
};

/// What distinguishes one Gaudi generation from the next, so far as the stand-in shows it. Source:
/// reference, section 2.1, 5.3 and 5.4.
struct model {
  hlthunk_device_name name;
  const char* description;
  const char* card_name;
  uint32_t pci_device_id;
  uint64_t physical_base;
  va_range hbm_va;    ///< addresses that map gives for HBM
  va_range hint_va;   ///< HBM addresses that only a hint gives
  va_range host_va;   ///< addresses that host_memory_map gives
  va_range sram;      ///< addressable without a mapping
  uint64_t hbm_page;  ///< bytes; allocations are multiples of it
  uint32_t hbm_pages;
  uint16_t server_type;
  uint32_t max_in_flight;               ///< command submissions
  std::array<uint32_t, 10> dma_queues;  ///< first stream of each DMA queue manager
  uint32_t streams_per_queue;

  [[nodiscard]] constexpr bool has_queue(uint32_t index) const noexcept {
    for (const uint32_t first : dma_queues)
      if (index >= first && index < first + streams_per_queue) return true;
    return false;
  }
};

inline constexpr model gaudi2 = {
    .name = HLTHUNK_DEVICE_GAUDI2,
    .description = "simulated Gaudi2",
    .card_name = "sim Gaudi2",
    .pci_device_id = 0x1020,
    .physical_base = 0x1001000000000000,
    .hbm_va = {0x1001001800000000, 0x1001500000000000},
    .hint_va = {0x1001500000000000, 0x1001700000000000},
    .host_va = {0xFFF0000000000000, 0xFFF0800000000000},
    .sram = {0x1000FFFFFD000000, 0x1001000000000000},
    .hbm_page = 768ULL << 20,
    .hbm_pages = 127,
    .server_type = 5,
    .max_in_flight = 64,
    .dma_queues = {0, 4, 8, 12, 48, 52, 84, 88, 120, 124},
    .streams_per_queue = 4,
};
static_assert(gaudi2.sram.end - gaudi2.sram.first == 48ULL << 20);

}  // namespace hlsim
