// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <bit>
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
/// reference, sections 2.1 and 5.2 to 5.4.
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
  va_range hbm_va;   ///< addresses that map gives for HBM
  va_range hint_va;  ///< HBM addresses that only a hint gives
  va_range host_va;  ///< addresses that host_memory_map gives
  /// The same for memory in whole 2 MiB pages; empty: no other addresses.
  va_range host_va_huge;
  va_range sram;      ///< addressable without a mapping; may be empty
  uint64_t hbm_page;  ///< bytes; allocations are multiples of it
  uint32_t hbm_pages;
  /// An allocation may choose another page, a power of two between these; 0: it may not.
  uint64_t smallest_page, largest_page;
  uint64_t page_orders;  ///< as hlthunk_get_dev_memalloc_page_orders tells them
  uint64_t mmu_page;     ///< bytes, as hw_ip_info tells them; 0 = those of hbm_page
  uint16_t server_type;
  uint32_t max_in_flight;               ///< command submissions
  std::array<uint32_t, 10> dma_queues;  ///< first stream of each DMA queue manager
  uint32_t streams_per_queue;
  uint32_t edma_mask;  ///< of the EDMA engines, one bit each
  /// Queues below this one take command buffers of the driver's, which it checks and copies.
  uint32_t kernel_cb_queues;
  bool flushes;  ///< has the register behind hlthunk_cs_flush_pci_hbw_writes

  /// Physical HBM of `size` bytes.
  [[nodiscard]] constexpr va_range physical_range(uint64_t size) const noexcept {
    return {hbm_va.first, hbm_va.first + size};
  }
  [[nodiscard]] constexpr bool is_host(uint64_t va) const noexcept {
    return host_va.holds(va, 1) || host_va_huge.holds(va, 1);
  }
  /// Whether an allocation may ask for pages of `size` bytes; 0 asks for the default.
  [[nodiscard]] constexpr bool takes_page(uint64_t size) const noexcept {
    return size == 0 || smallest_page == 0 ||
           (std::has_single_bit(size) && size >= smallest_page && size <= largest_page);
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
    .host_va_huge = {0, 0},
    .sram = {0x7FF0000000, 0x7FF1400000},
    .hbm_page = 32ULL << 20,
    .hbm_pages = 1008,
    .smallest_page = 0,
    .largest_page = 0,
    .page_orders = 0,
    .mmu_page = 2ULL << 20,
    .server_type = 1,
    .max_in_flight = 16384,
    .dma_queues = {0, 4, 9, 13, 17, 21, 25, 29, 29, 29},  // eight of them
    .streams_per_queue = 4,
    .edma_mask = 0,
    .kernel_cb_queues = 8,
    .flushes = true,
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
    .host_va_huge = {0xFFF0800000000000, 0xFFF1000000000000},
    .sram = {0x1000FFFFFD000000, 0x1001000000000000},
    .hbm_page = 768ULL << 20,
    .hbm_pages = 127,
    .smallest_page = 0,
    .largest_page = 0,
    .page_orders = 0,
    .mmu_page = 0,
    .server_type = 5,
    .max_in_flight = 64,
    .dma_queues = {0, 4, 8, 12, 48, 52, 84, 88, 120, 124},
    .streams_per_queue = 4,
    .edma_mask = 0xff,
    .kernel_cb_queues = 0,
    .flushes = true,
};
static_assert(gaudi2.sram.end - gaudi2.sram.first == 48ULL << 20);

/// A Gaudi2 of whose HBM stacks some are unused: its page is 16 times 8 MiB for each in use, one
/// page is the driver's, and addresses begin behind as many pages as hold all of it.
constexpr model gaudi2_with(uint32_t stacks) noexcept {
  model m = gaudi2;
  const uint64_t total = stacks * (16ULL << 30);
  m.hbm_page = stacks * (128ULL << 20);
  m.hbm_pages = static_cast<uint32_t>(total / m.hbm_page) - 1;
  m.hbm_va.first = m.physical_base + (total + m.hbm_page - 1) / m.hbm_page * m.hbm_page;
  return m;
}
inline constexpr uint32_t gaudi2_stacks = 6;
inline constexpr model gaudi2_binned = gaudi2_with(5);
static_assert(gaudi2_with(gaudi2_stacks).hbm_va.first == gaudi2.hbm_va.first);
static_assert(gaudi2_with(gaudi2_stacks).hbm_page == gaudi2.hbm_page);
static_assert(gaudi2_with(gaudi2_stacks).hbm_pages == gaudi2.hbm_pages);
static_assert(gaudi2_binned.hbm_page == 640ULL << 20);

/// Its SRAM has no addresses in the reference, nor is it known how much HBM is the driver's: here 1
/// GiB. No queue is published that users may submit to.
inline constexpr model gaudi3 = {
    .generation = 3,
    .name = HLTHUNK_DEVICE_GAUDI3,
    .description = "simulated Gaudi3",
    .card_name = "sim Gaudi3",
    .pci_device_id = 0x1060,
    .physical_hbm = false,
    .resets_on_release = true,
    .physical_base = 0x0201000000000000,
    .hbm_va = {0x0201002000000000, 0x0201E00000000000},
    .hint_va = {0x0201E00000000000, 0x0202000000000000},
    .host_va = {0xFF70000000000000, 0xFF70800000000000},
    .host_va_huge = {0xFFF0000000000000, 0xFFF0800000000000},
    .sram = {0, 0},
    .hbm_page = 32ULL << 20,
    .hbm_pages = 4064,
    .smallest_page = 1ULL << 20,
    .largest_page = 1ULL << 30,
    .page_orders = (1ULL << 20) | (1ULL << 25) | (1ULL << 30),
    .mmu_page = 0,
    .server_type = 8,
    .max_in_flight = 64,
    .dma_queues = {},
    .streams_per_queue = 0,
    .edma_mask = 0,
    .kernel_cb_queues = 0,
    .flushes = false,
};
static_assert(gaudi3.host_va_huge.first == (gaudi3.host_va.first | 1ULL << 55));
static_assert(gaudi3.hbm_va.first - gaudi3.physical_base == 128ULL << 30);

/// A kind of device that the stand-in can be.
struct kind {
  uint32_t generation = gaudi2.generation;
  uint32_t stacks = gaudi2_stacks;  ///< of HBM: a Gaudi2 has 5 or 6
  bool operator==(const kind&) const = default;
};

/// The model of a kind: of an unknown one a Gaudi2's.
constexpr const model& model_of(const kind& k) noexcept {
  if (k.generation == gaudi1.generation) return gaudi1;
  if (k.generation == gaudi3.generation) return gaudi3;
  return k.stacks == gaudi2_stacks ? gaudi2 : gaudi2_binned;
}

}  // namespace hlsim
