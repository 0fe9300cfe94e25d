// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a device that is Synapse's does differently.
#include <rdma/fi_errno.h>

#include <utility>

#include "base/log.hpp"
#include "device/device.hpp"
#include "device/sysfs.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::device {

using base::error;
using base::result;

namespace {

constexpr std::uint64_t page = 4096;

/// The whole pages of it, as only these can be exported.
location pages_of(const hl::synapse::pool& pool) noexcept {
  const std::uint64_t first = (pool.base + page - 1) / page * page;
  const std::uint64_t end = (pool.base + pool.len) / page * page;
  const std::uint64_t len = end > first ? end - first : 0;
  return {.base = first, .len = len, .map_base = first, .map_len = len};
}

}  // namespace

location device::pool() const noexcept {
  return pages_of(pool_);
}

result<std::uint64_t> device::pool_alias(std::uint64_t addr, std::uint64_t len) const noexcept {
  const location whole = pool();
  const std::uint64_t reserved = whole.base - pool_.map_base;  // SCAL's own bytes
  const std::uint64_t offset = addr - pool_.map_base;
  if (whole.len == 0 || offset >= reserved || len > reserved - offset || offset >= whole.len ||
      len > whole.len - offset)
    return error{-FI_EINVAL};
  return whole.base + offset;
}

result<void> device::adopt_pool(const hl::synapse::pool& pool) {
  const location whole = pages_of(pool);
  if (whole.len == 0 || !memory_.is_own_memory(whole.base, whole.len)) {
    GAUDI_WARN(CORE, "Synapse's pool of device memory, 0x%llx+%llu, is none of %s's.\n",
               static_cast<unsigned long long>(pool.base),
               static_cast<unsigned long long>(pool.len), attributes_.name.c_str());
    return error{-FI_EINVAL};
  }
  const auto rc = memory_.make_known(
      whole, mapping::borrow_part(thunk_, fd_.get(), pool.map_base, whole.base, whole.len));
  if (rc) pool_ = pool;
  return rc;
}

// The number stays the descriptor's, so that nobody else's file is met under it.
void device::suspend() noexcept {
  if (pool_.len == 0 || lost() != 0) return;
  memory_.abandon();
  resting_ = fd_.abandon();
}

bool device::resume() noexcept {
  if (!std::exchange(resting_, false)) return lost() == 0;
  const auto same = hl::or_no_memory([&]() -> result<bool> { return is_still_there(); });
  if (!same || !*same) lost_.store(-FI_ENODEV, std::memory_order_release);
  openings_ = openings();
  opening_.renew(openings_);
  return lost() == 0;
}

bool device::is_still_there() const {
  const auto held = synapse_->device_fd();
  const auto pool = held ? synapse_->global_pool(*held) : held.failure();
  const bool is_same_pool = pool && pool->base == pool_.base && pool->len == pool_.len &&
                            pool->map_base == pool_.map_base;
  return is_same_pool && bus_id_of_fd(*thunk_, *held) == attributes_.bus_id && fd_.turn_to(*held);
}

}  // namespace gaudi::device
