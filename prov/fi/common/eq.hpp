// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/event_set.hpp"
#include "base/mutex.hpp"
#include "base/scoped_fd.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/event_source.hpp"
#include "fi/common/fork_guard.hpp"

namespace gaudi::fi {

/// fid_eq of the provider, see fi_eq(3). Holds at least as many events as its attributes ask; one
/// more puts it into the overrun state for good: no event is accepted any more, and after the last
/// one it reports FI_EOVERRUN as an error. Wait objects: none, unspecified and file descriptor. All
/// calls are thread safe. Events of connected endpoints come from the core's queue behind this one
/// and are read after those that are queued here.
class event_queue final : public fid_eq {
 public:
  /// fi_eq_open. `parent` counts the open queues of the fabric.
  static int open(child_count& parent, fi_eq_attr* attr, fid_eq** out, void* context) noexcept;
  static event_queue& of(fid_t f) noexcept {
    return *static_cast<event_queue*>(reinterpret_cast<fid_eq*>(f));
  }
  static event_queue& of(fid_eq* eq) noexcept { return *static_cast<event_queue*>(eq); }

  /// Appends an event whose entry (fi_eq_entry, fi_eq_cm_entry with data, ...) is `entry`. 0 or
  /// -FI_EOVERRUN, -FI_ENOMEM.
  int post(std::uint32_t event, std::span<const std::byte> entry) noexcept;
  /// The same for what may be missed: -FI_EAGAIN where there is no room, and nothing is overrun.
  int offer(std::uint32_t event, std::span<const std::byte> entry) noexcept;
  class reserved_events;
  /// As post() with memory that was taken before, of which there is some left: the only error is
  /// -FI_EOVERRUN.
  int post(std::uint32_t event, const fi_eq_entry& entry, reserved_events& reserved) noexcept;
  /// Appends an error, which readers see as -FI_EAVAIL. Provider data (err_data) is not carried. As
  /// above.
  int post_error(const fi_eq_err_entry& entry, reserved_events& reserved) noexcept;

  /// The core's event queue behind this one, for connected endpoints; opened at first need, by
  /// `open_source`. All of them must be of one fabric of the core's. The queue stays the owner.
  /// Throws std::bad_alloc.
  base::result<fid_eq*> attach(fid_fabric* core_fabric, event_source::opener open_source);

  /// Objects bound to this queue: each holds a children::ref, and the queue stays open for them.
  child_count& bound() noexcept { return bound_; }

 private:
  struct item {
    std::uint32_t event = 0;
    std::vector<std::byte> entry;  ///< empty for an error
    fi_eq_err_entry error{};       ///< .err is 0 unless this is an error
  };

  /// What the application sleeps on; all of it open or nothing.
  struct wait_object {
    std::optional<base::event_set> set;
    base::scoped_fd filled;  ///< an eventfd that is readable while the queue is not empty
  };
  static base::result<wait_object> open_wait_object();

  /// Nothing may be done with it here then, not even take its lock.
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }

  /// Throws std::bad_alloc.
  event_queue(child_count& parent, const fi_eq_attr& attr, wait_object wait, void* context);

  // The entries of fi_ops and fi_ops_eq.
  static int close(fid_t f) noexcept;
  static int control(fid_t f, int command, void* arg) noexcept;
  static ssize_t read(fid_eq* eq, std::uint32_t* event, void* buf, std::size_t len,
                      std::uint64_t flags) noexcept;
  static ssize_t read_error(fid_eq* eq, fi_eq_err_entry* buf, std::uint64_t flags) noexcept;
  static ssize_t write(fid_eq* eq, std::uint32_t event, const void* buf, std::size_t len,
                       std::uint64_t flags) noexcept;
  static ssize_t wait_and_read(fid_eq* eq, std::uint32_t* event, void* buf, std::size_t len,
                               int timeout, std::uint64_t flags);  // where it can be cancelled
  static const char* error_text(fid_eq* eq, int prov_errno, const void* err_data, char* buf,
                                std::size_t len) noexcept;
  static fi_ops fid_ops_;
  static fi_ops_eq eq_ops_;

  int append(item&& it) noexcept;
  int insert(item&& it) noexcept GAUDI_REQUIRES(mutex_);
  int append(item&& it, reserved_events& reserved) noexcept;
  /// Whether one more fits; if not, the queue is overrun from now on.
  bool has_room() noexcept GAUDI_REQUIRES(mutex_);
  void pop() noexcept GAUDI_REQUIRES(mutex_);
  void mark_readable() noexcept;
  void clear_readable() noexcept;
  ssize_t read_next(std::uint32_t* event, void* buf, std::size_t len, std::uint64_t flags) noexcept;
  ssize_t tell_of_overrun(fi_eq_err_entry& entry) noexcept;
  int try_wait() noexcept;

  const fork_guard fork_guard_;
  child_count::ref parent_;
  child_count bound_;
  const std::size_t capacity_;
  const std::uint64_t flags_;
  const fi_wait_obj wait_obj_;
  wait_object wait_;  ///< empty for FI_WAIT_NONE
  base::mutex mutex_;
  std::unique_ptr<event_source> core_ GAUDI_GUARDED_BY(mutex_);
  std::list<item> items_ GAUDI_GUARDED_BY(mutex_);
  bool overrun_ GAUDI_GUARDED_BY(mutex_) = false;  ///< which is an error behind all of items_
};

/// Memory for events that are still to come. For one thread; may outlive the queue.
class event_queue::reserved_events {
 public:
  /// For `count` events. Throws std::bad_alloc.
  explicit reserved_events(std::size_t count);

 private:
  friend class event_queue;
  std::list<item> items_;  ///< each with room for an fi_eq_entry
};

}  // namespace gaudi::fi
