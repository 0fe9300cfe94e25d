// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/params.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/region.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::reg {

/// Another NIC of this host, which carries a share of a domain's long transfers: the core's domain
/// on it, and what it knows of this process's memory. A key of one NIC means nothing to another, so
/// each has registrations of its own, made when it first carries something.
///
/// Not thread safe: the caller holds the lock of the domain whose it is, also when it drops a
/// registration. It outlives the regions that it knows.
class other_nic {
 public:
  struct settings {
    base::dmabuf_choice dmabuf = base::dmabuf_choice::automatic;
    base::flush_choice flush = base::flush_choice::automatic;
    cache_limits cache{};
    window_size windows{};
    base::clock clock{};  ///< as nic_loopback's and write_flush's
  };

  /// `number`: among those of the domain, from 1 on.
  other_nic(std::unique_ptr<core::inner_domain> core, std::size_t number, const settings& how)
      : core_(std::move(core)),
        number_(number),
        dmabufs_(*core_, how.dmabuf, how.cache, how.windows),
        loop_(*core_, how.clock),
        flush_(loop_, how.flush, nullptr, how.clock) {}

  [[nodiscard]] core::inner_domain& core() const noexcept { return *core_; }
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] write_flush& flush() noexcept { return flush_; }

  /// What a registration is for, which says what it lets a peer do: region::access, in device
  /// memory region::transfer_access; or what the region's key gives.
  enum class purpose : std::uint8_t { transfers, key };

  /// The NIC's registration of a region, made at the first call and kept for as long as the region.
  /// Null: it does not take this memory, or knows no way to (a dma-buf that the application
  /// brought). Throws std::bad_alloc.
  const core::inner_mr* registration_of(const region& r, purpose what);

 private:
  [[nodiscard]] region::at_nic make(const region& r, purpose what, std::uint64_t access);

  std::unique_ptr<core::inner_domain> core_;
  std::size_t number_;
  dmabuf_registrar dmabufs_;
  nic_loopback loop_;
  write_flush flush_;
};

}  // namespace gaudi::reg
