// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/scoped_fd.hpp"
#include "copy/copier.hpp"
#include "device/device.hpp"

namespace gaudi::rdma_check {

/// An open Gaudi and its copy engine, by the rooms of the provider. What fails is a failure with
/// exit_code::no_gaudi and the driver's reason. Closed with the last of its copies and blocks.
class gaudi_device {
 public:
  /// `which` as FI_GAUDI_DEVICE says it; empty: the value of that variable. The library is the one
  /// that FI_GAUDI_HLTHUNK names, or the installed one.
  static gaudi_device open(const std::string& which);

  /// For people: "Gaudi2 0000:19:00.0", and "simulated Gaudi2 ..." on the stand-in.
  std::string name() const;

  /// Blocks until done. Addresses are device addresses inside one block.
  void copy_to_device(std::uint64_t to, std::span<const std::byte> from) const;
  void copy_from_device(std::span<std::byte> to, std::uint64_t from) const;

  const std::shared_ptr<device::device>& handle() const { return device_; }

 private:
  gaudi_device(std::shared_ptr<device::device> device, std::shared_ptr<copy::copier> copier)
      : device_(std::move(device)), copier_(std::move(copier)) {}

  std::shared_ptr<device::device> device_;
  std::shared_ptr<copy::copier> copier_;
};

/// Owns a piece of a Gaudi's memory.
class device_block {
 public:
  /// A failure (no_gaudi) where the memory is full.
  device_block(const gaudi_device& owner, std::size_t size);
  device_block(const device_block&) = delete;
  device_block& operator=(const device_block&) = delete;
  ~device_block();

  std::uint64_t address() const { return address_; }

  /// The dma-buf that holds the block, the caller's own. A failure (no_dmabuf) where the driver
  /// does not export.
  device::dmabuf export_dmabuf() const;

 private:
  std::shared_ptr<device::device> device_;
  std::size_t size_;
  std::uint64_t address_ = 0;
};

}  // namespace gaudi::rdma_check
