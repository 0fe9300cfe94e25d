// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/generation.hpp"

namespace gaudi::device {
namespace {

// DMA_0's streams are queues 0-3 and DMA_1's 4-7; the other engines' queues take command buffers in
// device memory and tell nobody of their end. Three quarters of the driver's 16384 submissions.
constexpr generation_traits gaudi1{.number = 1,
                                   .name = "Gaudi",
                                   .physical_addresses = true,
                                   .region = std::uint64_t{256} << 20,
                                   .copies = true,
                                   .kernel_commands = true,
                                   .lin_dma_ctl = hl::lin_dma_ctl_gaudi1,
                                   .host_to_device = {0, 1, 2, 3},
                                   .device_to_host = {4, 5, 6, 7},
                                   .device_to_device = {0, 4, 1, 5},
                                   .max_in_flight = 12288};

// PDMA_0's streams are queues 0-3 and PDMA_1's 4-7. 48 of the driver's 64 submissions leave room
// for an application that submits on the same descriptor.
constexpr generation_traits gaudi2{.number = 2,
                                   .name = "Gaudi2",
                                   .physical_addresses = false,
                                   .region = 0,
                                   .copies = true,
                                   .kernel_commands = false,
                                   .lin_dma_ctl = hl::lin_dma_ctl_gaudi2,
                                   .host_to_device = {0, 1, 2, 3},
                                   .device_to_host = {4, 5, 6, 7},
                                   .device_to_device = {0, 4, 1, 5},
                                   .max_in_flight = 48};

// Its driver publishes no queue that takes copies.
constexpr generation_traits gaudi3{.number = 3,
                                   .name = "Gaudi3",
                                   .physical_addresses = false,
                                   .region = std::uint64_t{256} << 20,
                                   .copies = false,
                                   .kernel_commands = false,
                                   .lin_dma_ctl = 0,
                                   .host_to_device = {},
                                   .device_to_host = {},
                                   .device_to_device = {},
                                   .max_in_flight = 0};

}  // namespace

const generation_traits* generation_of(std::uint32_t pci_device_id) noexcept {
  switch (pci_device_id) {
    case 0x1000:
    case 0x1001:
    case 0x1010:
    case 0x1011:
    case 0xff02:  // the vendor's simulator
      return &gaudi1;
    case 0x1020:
    case 0xff07:
      return &gaudi2;
    case 0x1060:
    case 0x1061:
    case 0x1062:
    case 0xff0b:
      return &gaudi3;
    default:
      return nullptr;
  }
}

}  // namespace gaudi::device
