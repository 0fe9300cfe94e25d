// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "device/device.hpp"
#include "device/suballocator.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/device_region.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/region.hpp"

namespace gaudi::fi {

/// One allocation that the NIC knows from the beginning, handed out in pieces: a memory region on a
/// piece, with the pool's access, finds the registration there. Not thread safe.
class memory_pool {
 public:
  /// Allocates `len` bytes (> 0, rounded up to 4 KiB) and registers them as a memory region with
  /// `access` would be; staged where that is. Errors of device::allocate and
  /// dmabuf_registrar::obtain. The caller holds the registrar's lock.
  static base::result<std::unique_ptr<memory_pool>> create(const provider_context& context,
                                                           reg::dmabuf_registrar& dmabufs,
                                                           std::shared_ptr<device::device> on,
                                                           std::uint64_t len, std::uint64_t access,
                                                           carrier by = carrier::provider);

  /// Gives the memory back. -FI_EBUSY: pieces are handed out, or memory regions cover some of it;
  /// the pool stays. The caller holds the lock of the registrar it was created with.
  int release(reg::dmabuf_registrar& dmabufs);

  /// `len` bytes (> 0), aligned to 4 KiB. -FI_EINVAL, -FI_ENOMEM.
  base::result<std::uint64_t> take(std::uint64_t len);
  /// A piece by its first address. -FI_EINVAL: not one.
  int give_back(std::uint64_t addr) noexcept;

 private:
  memory_pool(const provider_context& context, std::shared_ptr<device::device> on,
              carrier by) noexcept
      : context_(context), device_(std::move(on)), carrier_(by) {}

  int free() noexcept;

  const provider_context context_;
  const std::shared_ptr<device::device> device_;
  const carrier carrier_;
  reg::region whole_;
  device::suballocator pieces_;
};

/// A domain's pools, by number. Thread safe; its lock is above the registrar's.
class memory_pools {
 public:
  /// Adds what make() gives, a result of memory_pool::create, whose place is there before it: a
  /// pool that has none could not be given back. `hold` keeps the domain open for as long as the
  /// pool is there. The number, or make()'s error. Throws std::bad_alloc.
  template <class Make>
  base::result<std::uint64_t> add(child_count::ref hold, Make&& make) {
    const base::scoped_lock lock(mutex_);
    const auto place = pools_.try_emplace(next_).first;
    auto made = result_of(make);
    if (!made) {
      pools_.erase(place);
      return made.failure();
    }
    place->second = {*std::move(made), std::move(hold)};
    return next_++;
  }
  /// Calls call(pool). -FI_EINVAL: no pool has this number.
  template <class Call>
  int with(std::uint64_t number, Call&& call) {
    const base::scoped_lock lock(mutex_);
    const auto found = pools_.find(number);
    return found == pools_.end() ? -FI_EINVAL : call(*found->second.pool);
  }
  /// The same, and the pool goes if call(pool) gives 0.
  template <class Call>
  int remove(std::uint64_t number, Call&& call) {
    const base::scoped_lock lock(mutex_);
    const auto found = pools_.find(number);
    if (found == pools_.end()) return -FI_EINVAL;
    const int ret = call(*found->second.pool);
    if (ret == 0) pools_.erase(found);
    return ret;
  }

 private:
  template <class Make>
  static base::result<std::unique_ptr<memory_pool>> result_of(Make& make) noexcept try {
    return make();
  } catch (const std::bad_alloc&) {
    return base::error{-FI_ENOMEM};
  }

  struct entry {
    std::unique_ptr<memory_pool> pool;
    child_count::ref hold;
  };
  base::mutex mutex_;
  std::map<std::uint64_t, entry> pools_ GAUDI_GUARDED_BY(mutex_);
  std::uint64_t next_ GAUDI_GUARDED_BY(mutex_) = 1;
};

}  // namespace gaudi::fi
