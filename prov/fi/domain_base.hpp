// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"
#include "device/device_registry.hpp"
#include "fi/ext_ops.hpp"
#include "fi/fork_guard.hpp"

namespace gaudi::fi {

/// What the parameters say of devices.
device::device_registry::settings device_settings();

/// What a domain has whatever its endpoints are: the operations of fi_ext_gaudi.h.
class domain_base : public fid_domain {
 public:
  static domain_base& of(fid_domain* d) noexcept { return *static_cast<domain_base*>(d); }

  /// Nothing may be done with it here then, not even take its lock.
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }

  /// A device of the process by its number, opened at first need. Errors of device_registry::at.
  static base::result<std::shared_ptr<device::device>> device_at(unsigned number);
  /// How many devices the process numbers. Errors of device_registry::count.
  static base::result<unsigned> count_devices();

  /// The number of the device that the operations of fi_ext_gaudi.h on this domain use.
  [[nodiscard]] unsigned selected() const noexcept { return selected_.load(); }
  void select(unsigned number) noexcept { selected_.store(number); }
  /// That device, opened at first need.
  [[nodiscard]] base::result<std::shared_ptr<device::device>> selected_device() const {
    return device_at(selected());
  }
  /// The same, or null where it is not open.
  [[nodiscard]] std::shared_ptr<device::device> selected_if_open() const noexcept;

  async_copies& copies() noexcept { return copies_; }
  memory_pools& pools() noexcept { return pools_; }

 protected:
  explicit domain_base(const fid_domain& own) : fid_domain(own), uses_devices_(device_settings()) {}
  ~domain_base() = default;

 private:
  const fork_guard fork_guard_;
  const device::device_registry::user uses_devices_;  // before what has some
  std::atomic<unsigned> selected_{0};
  async_copies copies_;
  memory_pools pools_;
};

}  // namespace gaudi::fi
