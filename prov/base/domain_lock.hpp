// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <mutex>

namespace gaudi::base {

/// The one lock of a domain: everything below a fid_domain (endpoints, queues, memory regions) runs
/// under it, and the inner provider's domain is opened as FI_THREAD_DOMAIN, so an operation
/// takes one uncontended lock in all. Disabled when the application itself promised
/// FI_THREAD_DOMAIN.
class domain_lock {
 public:
  explicit domain_lock(bool enabled = true) noexcept : enabled_(enabled) {}

  void lock() noexcept {
    if (enabled_) mutex_.lock();
  }
  void unlock() noexcept {
    if (enabled_) mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  const bool enabled_;
};

using scoped_domain_lock = std::lock_guard<domain_lock>;

}  // namespace gaudi::base
