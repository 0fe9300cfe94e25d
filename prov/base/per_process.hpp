// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>

namespace gaudi::base {

/// The one object of type T that each process has. It is made at first use and never destroyed: at
/// the process's end, libraries that it refers to may be gone before it, and the kernel closes
/// everything anyway. The child of a fork gets a new one: locks of the parent's may be held for
/// ever there, and what it describes belongs to the parent. One load where it exists already. Any
/// thread.
template <class T>
class per_process {
 public:
  static T& get() {
    T* const known = current_.load(std::memory_order_acquire);
    return known ? *known : make();
  }

 private:
  // Not a local static: its guard, too, may be held by a thread that the child does not have.
  static T& make() {
    if (!is_watching_.load(std::memory_order_acquire)) {
      ::pthread_atfork(nullptr, nullptr,
                       [] { current_.store(nullptr, std::memory_order_relaxed); });
      is_watching_.store(true, std::memory_order_release);
    }
    auto made = std::make_unique<T>();
    T* known = nullptr;
    if (!current_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
      return *known;
    return *made.release();
  }

  static inline std::atomic<T*> current_{nullptr};
  static inline std::atomic<bool> is_watching_{false};
};

}  // namespace gaudi::base
