// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_ext_gaudi.h>

#include <cstdint>
#include <memory>

#include "copy/direction.hpp"
#include "device/device.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/memory_pool.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::fi {

constexpr copy::direction direction_of(fi_gaudi_copy_dir dir) noexcept {
  if (dir == FI_GAUDI_HOST_TO_DEVICE) return copy::direction::host_to_device;
  if (dir == FI_GAUDI_DEVICE_TO_HOST) return copy::direction::device_to_host;
  return copy::direction::device_to_device;
}

fi_gaudi_cache_stats stats_of(const reg::cache_counters& c) noexcept;

/// fi_gaudi_ops.cache_stats, for a kind of domain that has a registrar.
template <class Domain>
int cache_stats(fid_domain* d, fi_gaudi_cache_stats* stats) noexcept {
  *stats = stats_of(Domain::of(d).with_dmabufs([](auto& all) { return all.cached(); }));
  return 0;
}

fi_gaudi_device_stats stats_of(device::device& on, const reg::registration_counters& c) noexcept;

/// fi_gaudi_ops.device_stats, likewise.
template <class Domain>
int device_stats(fid_domain* d, fi_gaudi_device_stats* stats) noexcept {
  *stats = {};
  Domain& self = Domain::of(d);
  const auto on = self.selected_if_open();
  if (on) *stats = stats_of(*on, self.with_dmabufs([&](auto& all) { return all.counted(*on); }));
  return 0;
}

/// fi_gaudi_ops.pool_create, likewise.
template <class Domain>
int pool_create(fid_domain* d, std::uint64_t len, std::uint64_t access,
                std::uint64_t* pool) noexcept {
  return guarded_int([&]() -> int {
    Domain& self = Domain::of(d);
    auto on = self.selected_device();
    if (!on) return on.code();
    const auto added = self.pools().add(child_count::ref(self.open_children()), [&] {
      return self.with_dmabufs([&](auto& all) {
        return memory_pool::create(self.context(), all, *std::move(on), len, access,
                                   Domain::data_carrier);
      });
    });
    if (added) *pool = *added;
    return added.code();
  });
}

/// fi_gaudi_ops.pool_destroy, likewise.
template <class Domain>
int pool_destroy(fid_domain* d, std::uint64_t pool) noexcept {
  return guarded_int([&]() -> int {
    Domain& self = Domain::of(d);
    return self.pools().remove(pool, [&](memory_pool& p) {
      return self.with_dmabufs([&](auto& all) { return p.release(all); });
    });
  });
}

/// What fi_open_ops(FI_GAUDI_DOMAIN_OPS) gives, without what differs between the kinds of domain:
/// those entries are not_supported.
extern fi_gaudi_ops extension_ops;

}  // namespace gaudi::fi
