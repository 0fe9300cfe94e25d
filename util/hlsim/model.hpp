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
/// reference, section 2.1, 5.2, 5.3 and 5.4.
struct model {
  uint32_t generation;
  hlthunk_device_name name;
  const char* description;
  const char* card_name;
  uint32_t pci_device_id;
  /// Device memory has no MMU: its addresses are physical, in `hbm_va`, and the user manages it.
  bool physical_hbm;
  bool resets_on_release;  ///< an open soon after the last close gives EAGAIN
  uint64_t physical_base;
  va_range hbm_va;    ///< addresses that map gives for HBM
  va_range hint_va;   ///< HBM addresses that only a hint gives
  va_range host_va;   ///< addresses that host_memory_map gives
  va_range sram;      ///< addressable without a mapping
  uint64_t hbm_page;  ///< bytes; allocations are multiples of it
  uint32_t hbm_pages;
  uint64_t mmu_page;  ///< bytes, as hw_ip_info tells them; 0 = those of hbm_page
  uint16_t server_type;
  uint32_t max_in_flight;               ///< command submissions
  std::array<uint32_t, 10> dma_queues;  ///< first stream of each DMA queue manager
  uint32_t streams_per_queue;
  /// Queues below this one take command buffers of the driver's, which it checks and copies.
  uint32_t kernel_cb_queues;

  /// Physical HBM of `size` bytes.
  [[nodiscard]] constexpr va_range physical_range(uint64_t size) const noexcept {
    return {hbm_va.first, hbm_va.first + size};
  }
  [[nodiscard]] constexpr bool has_queue(uint32_t index) const noexcept {
    for (const uint32_t first : dma_queues)
      if (index >= first && index < first + streams_per_queue) return true;
    return false;
  }
};

/// hbm_va is that of the full HBM; how much of it there is, device_state says.
inline constexpr model gaudi1 = {
    .generation = 1,
    .name = HLTHUNK_DEVICE_GAUDI,
    .description = "simulated Gaudi1",
    .card_name = "sim Gaudi1",
    .pci_device_id = 0x1000,
    .physical_hbm = true,
    .resets_on_release = false,
    .physical_base = 0,
    .hbm_va = {0x20000000, 0x800000000},
    .hint_va = {0, 0},
    .host_va = {0x1000000000000, 0x1FFC000000000},
    .sram = {0x7FF0000000, 0x7FF1400000},
    .hbm_page = 32ULL << 20,
    .hbm_pages = 1008,
    .mmu_page = 2ULL << 20,
    .server_type = 1,
    .max_in_flight = 16384,
    .dma_queues = {0, 4, 9, 13, 17, 21, 25, 29, 29, 29},  // eight of them
    .streams_per_queue = 4,
    .kernel_cb_queues = 8,
};
static_assert(gaudi1.sram.end - gaudi1.sram.first == 20ULL << 20);
static_assert(gaudi1.hbm_va.end - gaudi1.hbm_va.first == gaudi1.hbm_page * gaudi1.hbm_pages);

inline constexpr model gaudi2 = {
    .generation = 2,
    .name = HLTHUNK_DEVICE_GAUDI2,
    .description = "simulated Gaudi2",
    .card_name = "sim Gaudi2",
    .pci_device_id = 0x1020,
    .physical_hbm = false,
    .resets_on_release = true,
    .physical_base = 0x1001000000000000,
    .hbm_va = {0x1001001800000000, 0x1001500000000000},
    .hint_va = {0x1001500000000000, 0x1001700000000000},
    .host_va = {0xFFF0000000000000, 0xFFF0800000000000},
    .sram = {0x1000FFFFFD000000, 0x1001000000000000},
    .hbm_page = 768ULL << 20,
    .hbm_pages = 127,
    .mmu_page = 0,
    .server_type = 5,
    .max_in_flight = 64,
    .dma_queues = {0, 4, 8, 12, 48, 52, 84, 88, 120, 124},
    .streams_per_queue = 4,
    .kernel_cb_queues = 0,
};
static_assert(gaudi2.sram.end - gaudi2.sram.first == 48ULL << 20);

/// The model of a generation that the stand-in has: 1, else 2.
constexpr const model& model_of(uint32_t generation) noexcept {
  return generation == gaudi1.generation ? gaudi1 : gaudi2;
}

}  // namespace hlsim
