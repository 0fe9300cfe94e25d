// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/event_set.hpp"
#include "base/waker.hpp"

namespace gaudi::fi {

class domain;

/// Drives a domain where the application asked for FI_PROGRESS_AUTO. Sleeps while nothing happens.
class progress_thread {
 public:
  /// Starts it. Under the domain lock, which the thread takes in turn. -FI_EAGAIN: there can be no
  /// more threads; errors of domain::open_sleeping_place. Throws std::bad_alloc.
  static base::result<std::unique_ptr<progress_thread>> start(domain& d);
  /// Ends it. Not under the domain lock. A process that came by fork has no such thread and leaves
  /// it alone.
  ~progress_thread();
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

  /// Something is to be polled: wakes the thread if it sleeps. Under the domain lock.
  void notify() noexcept { waker_.notify(); }

 private:
  progress_thread(domain& d, base::event_set set, base::waker waker);
  void run();
  bool may_sleep();

  domain& domain_;
  base::event_set set_;
  base::waker waker_;
  std::atomic<bool> stop_{false};
  const pid_t owner_;
  std::thread thread_;
};

}  // namespace gaudi::fi
