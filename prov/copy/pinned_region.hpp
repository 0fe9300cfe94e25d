// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"

namespace gaudi::copy {

/// A host range that a device can reach: pinned by the driver and mapped once, until destroyed. The
/// memory stays the caller's and must outlive this; no copy may be in flight when it ends.
/// Where the device is Synapse's it is mapped there, which then is not to be done by anybody else:
/// so this is for memory of our own only. Move-only. Holds its device.
class pinned_region {
 public:
  /// Any address and any length > 0; the driver pins whole pages. -FI_EFAULT: not all of it is
  /// mapped in the process; -FI_ENOMEM; device::lost(); other driver errors, e.g. for memory that
  /// is read-only.
  static base::result<pinned_region> map(std::shared_ptr<device::device> owner, void* host,
                                         std::size_t len);

  pinned_region(pinned_region&&) noexcept = default;
  pinned_region& operator=(pinned_region&&) = delete;
  ~pinned_region();

  [[nodiscard]] std::byte* host() const noexcept { return host_; }
  [[nodiscard]] std::size_t len() const noexcept { return len_; }
  /// The device's address of host(), as dma_engine takes it.
  [[nodiscard]] std::uint64_t device_va() const noexcept { return device_va_; }

 private:
  pinned_region(std::shared_ptr<device::device> owner, std::byte* host, std::size_t len,
                std::uint64_t device_va)
      : owner_(std::move(owner)), host_(host), len_(len), device_va_(device_va) {}

  std::shared_ptr<device::device> owner_;  // null when moved from
  std::byte* host_;
  std::size_t len_;
  std::uint64_t device_va_;
};

}  // namespace gaudi::copy
