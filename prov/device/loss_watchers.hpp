// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <vector>

#include "base/mutex.hpp"

namespace gaudi::device {

/// Who has something of a device's that keeps it open for the driver.
class loss_watcher {
 public:
  virtual ~loss_watcher() = default;

  /// The device is lost: what keeps it open is given back on return. Called once, by any thread,
  /// which may hold a lock of any domain: it must wait for none of these.
  virtual void device_lost() noexcept = 0;

 protected:
  loss_watcher() = default;
  loss_watcher(const loss_watcher&) = default;
  loss_watcher& operator=(const loss_watcher&) = default;
};

/// All who want to know. Thread safe; a watcher adds and removes nothing while it is told.
class loss_watchers {
 public:
  /// One that comes too late is told now. Throws std::bad_alloc.
  void add(loss_watcher& w) {
    const base::scoped_lock lock(mutex_);
    all_.push_back(&w);
    if (told_) w.device_lost();
  }
  /// On return it is not being told, nor will be.
  void remove(loss_watcher& w) noexcept {
    const base::scoped_lock lock(mutex_);
    all_.erase(std::remove(all_.begin(), all_.end(), &w), all_.end());
  }
  void tell() noexcept {
    const base::scoped_lock lock(mutex_);
    told_ = true;
    for (loss_watcher* w : all_) w->device_lost();
  }

 private:
  base::mutex mutex_;
  std::vector<loss_watcher*> all_ GAUDI_GUARDED_BY(mutex_);
  bool told_ GAUDI_GUARDED_BY(mutex_) = false;
};

}  // namespace gaudi::device
