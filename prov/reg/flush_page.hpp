// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "device/observers.hpp"
#include "reg/nic_loopback.hpp"

namespace gaudi::reg {

/// What the NIC reads to flush its writes to a device: some memory of that device, which the NIC
/// knows until the device is lost. The caller holds the domain lock in all calls; the loss comes
/// from any thread, without it.
class flush_page final : private device::loss_observer {
 public:
  /// Throws std::bad_alloc. Makes nothing yet.
  explicit flush_page(device::device& on);
  ~flush_page() override;
  flush_page(const flush_page&) = delete;
  flush_page& operator=(const flush_page&) = delete;

  [[nodiscard]] device::device& device() const noexcept { return *device_; }

  /// Allocates the page, or takes one of Synapse's pool where the device is Synapse's, and has the
  /// NIC of `core` know it, where that is still to be done. Errors of device::allocate, of its
  /// export and of the NIC.
  base::result<void> prepare(core::inner_domain& core);
  /// Why the last prepare() failed is a thing that lasts for this device and NIC.
  [[nodiscard]] bool failed_for_good() const noexcept { return failed_for_good_; }

  /// After prepare(): the NIC reads a byte of it. Errors of nic_loopback::read; device::lost().
  base::result<void> read(nic_loopback& loop, void* to, void* descriptor);

 private:
  base::result<void> choose();
  void let_go() noexcept;
  void device_lost() noexcept override;

  const std::shared_ptr<device::device> device_;
  base::mutex mutex_;  // no call of the device's is made under it: it may lose the device
  core::inner_mr mr_ GAUDI_GUARDED_BY(mutex_);
  // One thread at a time prepares.
  std::uint64_t address_ = 0;  // 0: none yet
  bool is_borrowed_ = false;   // from Synapse's pool, and never ours to free
  bool failed_for_good_ = false;
};

}  // namespace gaudi::reg
