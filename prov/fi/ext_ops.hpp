// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_ext_gaudi.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "copy/copier.hpp"
#include "fi/guard.hpp"
#include "fi/memory_pool.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::fi {

/// A domain's copies through fi_gaudi_ops: the copiers, and the copies that an application has
/// started with fi_gaudi_ops.copy_async and not yet seen the end of. Thread safe.
class async_copies {
 public:
  explicit async_copies(const base::params& params) noexcept : params_(params) {}

  /// The device's copier, kept with its pinned chunks for as long as the domain.
  base::result<std::shared_ptr<copy::copier>> copier(const std::shared_ptr<device::device>& owner);
  std::uint64_t add(std::unique_ptr<copy::operation> started);
  /// Polls (timeout 0) or waits. The ticket is used up when the copy has ended. -FI_EINVAL: no such
  /// ticket.
  int check(std::uint64_t ticket, int timeout_ms);

 private:
  struct entry {
    explicit entry(std::unique_ptr<copy::operation> started) : copy(std::move(started)) {}

    base::mutex busy;  // an operation is used by one thread at a time
    std::unique_ptr<copy::operation> copy GAUDI_GUARDED_BY(busy);
  };
  const base::params& params_;
  base::mutex mutex_;
  std::vector<std::shared_ptr<copy::copier>> copiers_
      GAUDI_GUARDED_BY(mutex_);  // one for each device
  std::unordered_map<std::uint64_t, std::shared_ptr<entry>> entries_ GAUDI_GUARDED_BY(mutex_);
  std::uint64_t next_ GAUDI_GUARDED_BY(mutex_) = 1;
};

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

/// What fi_open_ops(FI_GAUDI_DOMAIN_OPS) gives.
extern fi_gaudi_ops extension_ops;

}  // namespace gaudi::fi
