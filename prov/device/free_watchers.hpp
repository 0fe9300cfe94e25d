// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/mutex.hpp"

namespace gaudi::device {

/// Who keeps something of an allocation beyond the last pin on it: a cached registration.
class free_watcher {
 public:
  virtual ~free_watcher() = default;

  /// The allocation of that number (location::generation) is about to be freed: nobody has it
  /// pinned, and nobody can pin it any more. What is kept of it must have ended on return. Called
  /// by any thread, which holds no lock of the device, but may hold one of any domain: it must wait
  /// for none of these.
  virtual void leaving(std::uint64_t generation) noexcept = 0;

 protected:
  free_watcher() = default;
  free_watcher(const free_watcher&) = default;
  free_watcher& operator=(const free_watcher&) = default;
};

/// All who want to know. Thread safe; a watcher adds and removes nothing while it is told.
class free_watchers {
 public:
  /// Throws std::bad_alloc.
  void add(free_watcher& w) {
    const base::scoped_lock lock(mutex_);
    all_.push_back(&w);
  }
  /// On return it is not being told, nor will be.
  void remove(free_watcher& w) noexcept {
    const base::scoped_lock lock(mutex_);
    all_.erase(std::remove(all_.begin(), all_.end(), &w), all_.end());
  }
  void tell(std::uint64_t generation) noexcept {
    const base::scoped_lock lock(mutex_);
    for (free_watcher* w : all_) w->leaving(generation);
  }

 private:
  base::mutex mutex_;
  std::vector<free_watcher*> all_ GAUDI_GUARDED_BY(mutex_);
};

}  // namespace gaudi::device
