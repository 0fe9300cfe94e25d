// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "fi/common/provider_context.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/region.hpp"

namespace gaudi::fi {

/// A bit of fi_mr_regattr's flags that libfabric 1.17 does not name yet: FI_MR_DMABUF, since 1.20.
inline constexpr std::uint64_t from_dmabuf = std::uint64_t{1} << 40;

/// Who carries the data of a domain's messages.
enum class carrier : std::uint8_t {
  provider,  ///< by RMA of the core's, too: peers may have to read what is sent
  core,      ///< alone: peers get no more access than was asked for
};

/// The part of a dma-buf that fi_mr_attr names where from_dmabuf is set.
core::dmabuf_range part_of_dmabuf(const fi_mr_attr& attr) noexcept;

/// Whether the address is of memory that the provider knows. Synapse's is known from when its
/// device is first used here, which may be by this call.
bool is_known_here(const provider_context& context, std::uint64_t address);

/// Fills a region of a dma-buf's memory that the provider does not know, whose address, length and
/// access are set. Warns of what it refuses. 0 or an error. The caller holds the registrar's lock.
int attach_imported(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                    const core::dmabuf_range& part, carrier by);

/// Whether the part is of a dma-buf of Synapse's whole pool, under an address before the pool
/// (device::pool_alias).
bool is_pool_alias(const provider_context& context, const core::dmabuf_range& part);
/// Fills a region of such a part where the NIC does not take it: self_read.hpp reads it, nothing
/// else can use it.
void attach_pool_alias(reg::region& r);

/// As FI_GAUDI_MR_CACHE_MAX_COUNT and _SIZE have them.
reg::cache_limits cache_limits(const base::params& p) noexcept;
/// As FI_GAUDI_MR_WINDOW has them.
reg::window_size windows(const base::params& p) noexcept;

/// Fills a region of device memory whose address, length and access are set: finds its allocation
/// on the device, pins that, and lets the NIC at it where it can; else, and with a registrar that
/// may do so, the region stays without (staged). `said` is the device's number as the application
/// gave it, which is not looked at while there is one device only; nothing: the one that has the
/// address. Warns of what it refuses. 0 or an error. The caller holds the registrar's lock.
int attach_device(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                  std::optional<int> requested, carrier by = carrier::provider);

/// The same, on this device.
int attach_device(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                  device::device& on, carrier by = carrier::provider);

}  // namespace gaudi::fi
