// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <cassert>
#include <mutex>

#include "base/thread_safety.hpp"

namespace gaudi::base {

/// The thread that holds a lock, in debug builds. Changed by that thread only.
class lock_holder {
 public:
#ifndef NDEBUG
  void note() noexcept {
    holder_.store(::pthread_self(), std::memory_order_relaxed);
  }
  void forget() noexcept {
    holder_.store(0, std::memory_order_relaxed);
  }
  void assert_is_this_thread() const noexcept {
    assert(holder_.load(std::memory_order_relaxed) == ::pthread_self());
  }

 private:
  std::atomic<pthread_t> holder_{0};  ///< 0: none
#else
  void note() noexcept {}
  void forget() noexcept {}
  void assert_is_this_thread() const noexcept {}
#endif
};

/// std::mutex, as clang's analysis can follow it: the standard library's has no annotations.
class GAUDI_CAPABILITY("mutex") mutex {
 public:
  void lock() GAUDI_ACQUIRE() {
    own_.lock();
    holder_.note();
  }
  void unlock() GAUDI_RELEASE() {
    holder_.forget();
    own_.unlock();
  }

  /// Where the analysis cannot see that this thread holds it, as it goes by another name there.
  /// Debug builds look.
  void assert_held() const noexcept GAUDI_ASSERT_CAPABILITY(this) {
    holder_.assert_is_this_thread();
  }

 private:
  [[no_unique_address]] lock_holder holder_;
  std::mutex own_;
};

/// Holds a lock (mutex, domain_lock) as long as it lives.
template <class Lock>
class GAUDI_SCOPED_CAPABILITY scoped_lock {
 public:
  explicit scoped_lock(Lock& held) GAUDI_ACQUIRE(held) : held_(held) { held_.lock(); }
  ~scoped_lock() GAUDI_RELEASE() { held_.unlock(); }
  scoped_lock(const scoped_lock&) = delete;
  scoped_lock& operator=(const scoped_lock&) = delete;

 private:
  Lock& held_;
};

}  // namespace gaudi::base
