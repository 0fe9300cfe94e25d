// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::device {

/// How many devices this process has lost (device::lose). Who has something on devices compares it
/// with what it was, and looks at them when it has changed.
class device_loss_epoch {
 public:
  static std::uint64_t count() noexcept { return count_.load(std::memory_order_acquire); }

  /// Wakes threads blocked in poll().
  class loss_eventfd;

 private:
  friend class device;
  static void tell() noexcept;

  static inline std::atomic<std::uint64_t> count_{0};
};

/// Readable from the next loss on. Thread safe.
class device_loss_epoch::loss_eventfd {
 public:
  /// Throws std::bad_alloc. Without a descriptor (there are none left) it is never signalled.
  loss_eventfd();
  loss_eventfd(const loss_eventfd&) = delete;
  loss_eventfd& operator=(const loss_eventfd&) = delete;
  ~loss_eventfd();

  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  /// Makes it unreadable, before its owner looks at its devices. No system call while it is not
  /// signalled.
  void clear() noexcept;

 private:
  friend class device_loss_epoch;
  void signal() noexcept;

  const base::scoped_fd event_;
  std::atomic<bool> signalled_{false};
};

}  // namespace gaudi::device
