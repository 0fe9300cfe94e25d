// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"
#include "device/device_registry.hpp"
#include "fi/common/async_copies.hpp"
#include "fi/common/fork_guard.hpp"
#include "fi/common/memory_pool.hpp"
#include "fi/common/provider_context.hpp"

namespace gaudi::fi {

/// What a domain has whatever its endpoints are: the operations of fi_ext_gaudi.h.
class domain_base : public fid_domain {
 public:
  static domain_base& of(fid_domain* d) noexcept { return *static_cast<domain_base*>(d); }

  /// Nothing may be done with it here then, not even take its lock.
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }

  /// What it has of its fabric.
  [[nodiscard]] const provider_context& context() const noexcept { return context_; }
  /// Those whose addresses its operations take, before it is known that this is a child of fork,
  /// which may start none.
  [[nodiscard]] device::device_registry& devices() const {
    return context_.in_this_process().devices;
  }

  /// The number of the device that the operations of fi_ext_gaudi.h on this domain use.
  [[nodiscard]] unsigned selected() const noexcept { return selected_.load(); }
  void select(unsigned number) noexcept { selected_.store(number); }
  /// That device, opened at first need.
  [[nodiscard]] base::result<std::shared_ptr<device::device>> selected_device() const {
    return context_.device_at(selected());
  }
  /// The same, or null where it is not open.
  [[nodiscard]] std::shared_ptr<device::device> selected_if_open() const noexcept {
    return context_.devices.opened(selected());
  }

  async_copies& copies() noexcept { return copies_; }
  memory_pools& pools() noexcept { return pools_; }

 protected:
  domain_base(const fid_domain& own, const provider_context& context)
      : fid_domain(own),
        context_(context),
        uses_devices_(context.devices, context.device_settings()),
        copies_(context.params) {}
  ~domain_base() = default;

 private:
  const fork_guard fork_guard_;
  const provider_context context_;
  const device::device_registry::user uses_devices_;  // before what has some
  std::atomic<unsigned> selected_{0};
  async_copies copies_;
  memory_pools pools_;
};

}  // namespace gaudi::fi
