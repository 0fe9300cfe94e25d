// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::base {

/// File descriptors that are waited for together; sets can hold sets (epoll(7)). Thread safe.
class event_set {
 public:
  /// -FI_EMFILE and others of epoll_create1(2).
  static result<event_set> open() noexcept;

  /// Readable while one of its members is. The set stays the owner.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// A member leaves by itself when its last descriptor is closed. 0, or -errno of epoll_ctl(2).
  int add(int member) noexcept;
  void remove(int member) noexcept;

  /// Blocks until a member is readable. False: `timeout` ms passed (negative: never), or a signal
  /// came. A cancellation point (pthread_cancel(3)), with which it throws.
  bool wait(int timeout) const;

 private:
  explicit event_set(scoped_fd epoll) noexcept : epoll_(std::move(epoll)) {}
  scoped_fd epoll_;
};

}  // namespace gaudi::base
