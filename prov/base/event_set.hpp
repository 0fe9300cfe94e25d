// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::base {

/// What wait_for_any leaves out.
inline constexpr int no_fd = -1;

/// Blocks until one of them is readable. False: `timeout` ms passed (negative: never), or a signal
/// came. A cancellation point (pthread_cancel(3)), with which it throws.
bool wait_for_any(std::array<int, 2> fds, int timeout);

/// Which of some descriptors were readable, as far as is known.
class ready_fds {
 public:
  /// Nothing is known: any of them may be.
  static ready_fds any() noexcept { return ready_fds(max_count); }
  static ready_fds none() noexcept { return ready_fds(0); }
  /// These. Where they are max_count or more, any may be.
  static ready_fds of(std::span<const int> fds) noexcept {
    ready_fds found(std::min(fds.size(), max_count));
    std::copy_n(fds.begin(), found.count_, found.fds_.begin());
    return found;
  }

  [[nodiscard]] bool any_of(std::span<const int> fds) const noexcept {
    if (count_ == max_count) return true;
    const auto known = std::span(fds_).first(count_);
    return std::find_first_of(fds.begin(), fds.end(), known.begin(), known.end()) != fds.end();
  }

 private:
  friend class event_set;
  static constexpr std::size_t max_count = 32;

  explicit ready_fds(std::size_t count) noexcept : count_(count) {}

  std::array<int, max_count> fds_{};
  std::size_t count_;  // max_count: or more
};

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

  /// Which members are readable now.
  [[nodiscard]] ready_fds ready() const noexcept;

  /// As wait_for_any of its descriptor.
  bool wait(int timeout) const { return wait_for_any({fd(), no_fd}, timeout); }

 private:
  explicit event_set(scoped_fd epoll) noexcept : epoll_(std::move(epoll)) {}
  scoped_fd epoll_;
};

}  // namespace gaudi::base
