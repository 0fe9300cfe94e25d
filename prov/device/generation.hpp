// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hl/abi.hpp"

namespace gaudi::device {

/// Everything that differs from one Gaudi generation to the next (prov/docs/device.md,
/// 1.2, 2.1, 5.2, 5.3), in one place. Objects are constants of static storage duration.
struct generation_traits {
  /// Hardware queues for copies of each direction.
  static constexpr std::size_t queues = 4;

  int number;        ///< 1, 2 or 3: enum fi_gaudi_generation
  const char* name;  ///< "Gaudi2"
  /// Device memory has no MMU: addresses are physical, and whoever opened the device manages all of
  /// it. They may be host addresses as well.
  bool physical_addresses;
  /// Bytes taken from the driver at a time, or as much as is left: few dma-bufs, each with many
  /// allocations in it. At least a page, 0: just that.
  std::uint64_t region;
  /// Its queues copy for applications (prov/docs/device.md, 5.4). Those of a Gaudi3 do not: all
  /// that follows is without meaning then.
  bool copies;
  bool kernel_commands;       ///< the queues take command buffers of the driver's only
  std::uint32_t lin_dma_ctl;  ///< control word of a plain copy
  /// Their numbers by direction, taken in turn so that independent copies overlap.
  std::array<std::uint32_t, queues> host_to_device;
  std::array<std::uint32_t, queues> device_to_host;
  std::array<std::uint32_t, queues> device_to_device;
  /// Command submissions that the driver holds at a time; one more makes the library spin.
  unsigned max_in_flight;
};

/// The generation of a PCI device id, or null for what is not a Gaudi.
const generation_traits* generation_of(std::uint32_t pci_device_id) noexcept;

/// True for an address in a Gaudi2's or Gaudi3's memory. Those ranges are non-canonical on the CPU,
/// so no host pointer is ever among them; Gaudi1's addresses cannot be told and give false. For
/// them counts what the caller says the memory is (an MR's iface, a descriptor).
constexpr bool is_device_address(std::uint64_t address) noexcept {
  constexpr std::uint64_t gaudi2_first = 0x1001000000000000, gaudi2_end = 0x1002000000000000;
  constexpr std::uint64_t gaudi3_first = 0x0201000000000000, gaudi3_end = 0x0202000000000000;
  return (address >= gaudi2_first && address < gaudi2_end) ||
         (address >= gaudi3_first && address < gaudi3_end);
}

/// True also for what is an address in a Gaudi1's HBM if there is a Gaudi1, and host memory if not:
/// for choices that are right for both.
constexpr bool may_be_device_address(std::uint64_t address) noexcept {
  constexpr std::uint64_t gaudi1_first = 0x20000000, gaudi1_end = 0x800000000;
  return (address >= gaudi1_first && address < gaudi1_end) || is_device_address(address);
}

}  // namespace gaudi::device
