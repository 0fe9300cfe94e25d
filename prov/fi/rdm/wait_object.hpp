// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/cancellation_deferred.hpp"
#include "base/event_set.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/sleeping_place.hpp"

namespace gaudi::fi {

/// What a thread sleeps on until a completion queue or counter changes (FI_WAIT_FD): readable when
/// the core has something for any endpoint of the domain, when another thread changed the object,
/// or when it was signalled. Thread safe.
class wait_object {
 public:
  /// For the wait_obj of a CQ's or counter's attributes. Empty without a file descriptor
  /// (FI_WAIT_NONE, FI_WAIT_YIELD). -FI_ENOSYS: not offered.
  static base::result<std::unique_ptr<wait_object>> open(domain& d, fi_wait_obj kind)
      GAUDI_REQUIRES(d.lock());

  explicit wait_object(sleeping_place place) noexcept : place_(std::move(place)) {}
  /// Makes one descriptor of all that there is in the place. 0, or -errno.
  int open_set() noexcept;

  /// For the application (FI_GETWAIT), with FI_WAIT_FD; else -1.
  [[nodiscard]] int fd() const noexcept { return set_ ? set_->fd() : base::no_fd; }
  base::waker& waker() noexcept { return place_.waker; }

  /// Blocks for at most `timeout` ms (negative: no limit). A cancellation point.
  void sleep(int timeout) const { place_.wait(timeout); }

 private:
  sleeping_place place_;
  std::optional<base::event_set> set_;
};

/// Answers FI_GETWAIT and FI_GETWAITOBJ of fi_control(3). -FI_ENODATA: no file descriptor.
int get_wait_object(const wait_object* object, fi_wait_obj kind, int command, void* arg) noexcept;

/// The part of fi_cq_sread and fi_cntr_wait that they share: lets time pass until something may
/// have changed. Spins at first, as a message that is under way takes microseconds, then sleeps on
/// the object, or naps where there is none. In that sleep, and nowhere else, the thread can be
/// cancelled.
class sleeper {
 public:
  using clock = std::chrono::steady_clock;

  /// `timeout` in ms, negative for none. `object` may be null.
  sleeper(domain& d, wait_object* object, int timeout) noexcept;

  [[nodiscard]] bool timed_out() const noexcept;
  /// `changed()` is asked under the domain lock before it sleeps, and prevents that.
  template <class Changed>
  void spin_or_block(Changed&& changed) {
    if (still_spins()) return;
    if (object_) {
      const base::cancellation_deferred while_it_is_locked;
      const base::scoped_domain_lock lock(domain_.lock());
      // Armed first: the progress that is made here may be what changes it.
      object_->waker().arm();
      if (changed() || domain_.try_wait() || changed()) return short_pause();
    }
    sleep();
  }

 private:
  [[nodiscard]] bool still_spins() const noexcept;
  static void short_pause();
  void sleep() const;

  domain& domain_;
  wait_object* const object_;
  const clock::time_point start_;
  const int timeout_;
};

}  // namespace gaudi::fi
