// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::base {

/// Wakes a thread that sleeps in poll(2), by an eventfd that costs nothing while nobody sleeps.
///
/// A sleeper arms it while it holds the lock under which things happen, looks a last time whether
/// anything has, gives the lock back, and polls fd(). Thread safe.
class waker {
 public:
  /// -FI_EMFILE and others of eventfd(2).
  static result<waker> open() noexcept;

  waker(waker&& other) noexcept
      : event_(std::move(other.event_)),
        armed_(other.armed_.load()),
        signalled_(other.signalled_.load()) {}

  [[nodiscard]] int fd() const noexcept { return event_.get(); }

  /// Makes fd() unreadable, and the next notify() ring.
  void arm() noexcept;
  /// Something happened: makes fd() readable if a sleeper is about.
  void notify() noexcept {
    if (armed_.load(std::memory_order_relaxed)) [[unlikely]]
      ring();
  }
  /// Makes fd() readable, sleeper or not.
  void ring() noexcept;

 private:
  explicit waker(scoped_fd event) noexcept : event_(std::move(event)) {}

  scoped_fd event_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> signalled_{false};
};

}  // namespace gaudi::base
