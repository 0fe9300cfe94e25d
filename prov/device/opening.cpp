// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/opening.hpp"

#include <pthread.h>
#include <unistd.h>

#include <utility>

#include "base/fork_generation.hpp"
#include "base/mutex.hpp"

namespace gaudi::device {

/// Survives a fork whole: the thread that forks holds the mutex meanwhile. Whoever else holds it
/// calls nothing.
struct opening::list {
  base::mutex mutex;
  opening* first GAUDI_GUARDED_BY(mutex) = nullptr;
  bool is_watching GAUDI_GUARDED_BY(mutex) = false;

  static list& all() noexcept {
    static constinit list one;
    return one;
  }

  void watch_forks() GAUDI_REQUIRES(mutex) {
    if (std::exchange(is_watching, true)) return;
    ::pthread_atfork(before_fork, in_parent, in_child);
  }
  static void before_fork() noexcept GAUDI_ACQUIRE(all().mutex) { all().mutex.lock(); }
  static void in_parent() noexcept GAUDI_RELEASE(all().mutex) { all().mutex.unlock(); }
  static void in_child() noexcept GAUDI_RELEASE(all().mutex) {
    all().close_all();
    all().mutex.unlock();
  }

  /// In the child. The parent's descriptor of the same file stays open.
  void close_all() noexcept GAUDI_REQUIRES(mutex) {
    for (opening* one = first; one; one = one->next_)
      if (const int fd = std::exchange(one->fd_, -1); fd >= 0) ::close(fd);
  }
};

opening::opening(std::string bus_id, std::uint64_t number, int fd)
    : bus_id_(std::move(bus_id)), process_(base::fork_generation()), number_(number), fd_(fd) {
  list& all = list::all();
  const base::scoped_lock lock(all.mutex);
  all.watch_forks();
  next_ = std::exchange(all.first, this);
  link_ = &all.first;
  if (next_) next_->link_ = &next_;
}

void opening::renew(std::uint64_t number) noexcept {
  const base::scoped_lock lock(list::all().mutex);
  number_ = number;
}

void opening::end() noexcept {
  const base::scoped_lock lock(list::all().mutex);
  if (std::exchange(ended_, true)) return;
  *link_ = next_;
  if (next_) next_->link_ = link_;
}

bool opening::used_after_fork(const std::string& bus_id, std::uint64_t number) noexcept {
  const base::scoped_lock lock(list::all().mutex);
  for (const opening* one = list::all().first; one; one = one->next_) {
    const bool is_same = one->number_ == 0 || number == 0 || one->number_ == number;
    if (one->process_ != base::current_fork_generation() && one->bus_id_ == bus_id && is_same)
      return true;
  }
  return false;
}

}  // namespace gaudi::device
