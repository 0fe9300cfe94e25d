// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/mutex.hpp"

/// Who is to be told what happens to a device and its memory.
namespace gaudi::device {

/// Has something that keeps a device open: an engine, a registration, a page.
class loss_observer {
 public:
  virtual ~loss_observer() = default;

  /// The device is lost: what keeps it open is given back on return. Called once, by any thread,
  /// which may hold a lock of any domain: it must wait for none of these.
  virtual void device_lost() noexcept = 0;

 protected:
  loss_observer() = default;
  loss_observer(const loss_observer&) = default;
  loss_observer& operator=(const loss_observer&) = default;
};

/// Keeps something of allocations: registrations, exported dma-bufs.
class free_observer {
 public:
  virtual ~free_observer() = default;

  /// The allocation of that number (location::allocation_id) is about to be freed: nobody has it
  /// pinned, and nobody can pin it any more. What is kept of it must have ended on return. Called
  /// by any thread, which holds no lock of the device, but may hold one of any domain: it must wait
  /// for none of these.
  virtual void on_free(std::uint64_t allocation_id) noexcept = 0;

 protected:
  free_observer() = default;
  free_observer(const free_observer&) = default;
  free_observer& operator=(const free_observer&) = default;
};

/// The observers of one kind. They are told under its mutex: on return of remove() one is not being
/// told, nor will be. Thread safe.
template <class Observer>
class observer_list {
 public:
  /// False: notify_last() has been called, and the caller tells this one. Throws std::bad_alloc.
  [[nodiscard]] bool add(Observer& one) {
    const base::scoped_lock lock(mutex_);
    if (is_over_) return false;
    all_.push_back(&one);
    return true;
  }
  void remove(Observer& one) noexcept {
    const base::scoped_lock lock(mutex_);
    std::erase(all_, &one);
  }

  /// Calls call(observer) for each.
  template <class Call>
  void notify(Call&& call) noexcept {
    const base::scoped_lock lock(mutex_);
    for (Observer* one : all_) call(*one);
  }
  /// The same, of what happens once and for good.
  template <class Call>
  void notify_last(Call&& call) noexcept {
    const base::scoped_lock lock(mutex_);
    is_over_ = true;
    for (Observer* one : all_) call(*one);
  }

 private:
  base::mutex mutex_;
  std::vector<Observer*> all_ GAUDI_GUARDED_BY(mutex_);
  bool is_over_ GAUDI_GUARDED_BY(mutex_) = false;
};

}  // namespace gaudi::device
