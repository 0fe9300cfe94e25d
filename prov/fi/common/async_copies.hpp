// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/params.hpp"
#include "base/result.hpp"
#include "copy/copier.hpp"
#include "device/device.hpp"

namespace gaudi::fi {

/// A domain's copies through fi_gaudi_ops: the copiers, and the copies that an application has
/// started with fi_gaudi_ops.copy_async and not yet seen the end of. Thread safe.
class async_copies {
 public:
  explicit async_copies(const base::params& params) noexcept : params_(params) {}

  /// The device's copier, kept with its pinned chunks for as long as the domain.
  base::result<std::shared_ptr<copy::copier>> copier(const std::shared_ptr<device::device>& owner);
  std::uint64_t add(std::unique_ptr<copy::operation> started);
  /// One that has ended well by now: check() says so.
  std::uint64_t add_ended() { return add(nullptr); }
  /// Polls (timeout 0) or waits. The ticket is used up when the copy has ended. -FI_EINVAL: no such
  /// ticket.
  int check(std::uint64_t ticket, int timeout_ms);

 private:
  struct entry {
    explicit entry(std::unique_ptr<copy::operation> started) : copy(std::move(started)) {}

    base::mutex busy;  // an operation is used by one thread at a time
    std::unique_ptr<copy::operation> copy GAUDI_GUARDED_BY(busy);  // null: it has ended
  };
  const base::params& params_;
  base::mutex mutex_;
  std::vector<std::shared_ptr<copy::copier>> copiers_
      GAUDI_GUARDED_BY(mutex_);  // one for each device
  std::unordered_map<std::uint64_t, std::shared_ptr<entry>> entries_ GAUDI_GUARDED_BY(mutex_);
  std::uint64_t next_ GAUDI_GUARDED_BY(mutex_) = 1;
};

}  // namespace gaudi::fi
