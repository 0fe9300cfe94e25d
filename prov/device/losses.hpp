// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::device {

/// How many devices this process has lost (device::lose). Who has something on devices compares it
/// with what it was, and looks at them when it has changed.
class losses {
 public:
  static std::uint64_t count() noexcept { return count_.load(std::memory_order_acquire); }

  /// Wakes who sleeps meanwhile.
  class bell;

 private:
  friend class device;
  static void tell() noexcept;

  static inline std::atomic<std::uint64_t> count_{0};
};

/// Readable from the next loss on. Thread safe.
class losses::bell {
 public:
  /// Throws std::bad_alloc. A bell without a descriptor (there are none left) is silent.
  bell();
  bell(const bell&) = delete;
  bell& operator=(const bell&) = delete;
  ~bell();

  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  /// Makes it unreadable, before its owner looks at his devices. No system call while it has not
  /// rung.
  void quiet() noexcept;

 private:
  friend class losses;
  void ring() noexcept;

  const base::scoped_fd event_;
  std::atomic<bool> rung_{false};
};

}  // namespace gaudi::device
