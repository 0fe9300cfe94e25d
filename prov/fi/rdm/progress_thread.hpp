// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/result.hpp"
#include "fi/rdm/application_pace.hpp"
#include "fi/rdm/endpoint_rota.hpp"
#include "fi/rdm/sleeping_place.hpp"

namespace gaudi::fi {

/// Drives a domain where the application asked for FI_PROGRESS_AUTO. Sleeps while nothing happens,
/// and mostly while the application polls, which is progress enough.
class progress_thread {
 public:
  /// What the thread calls; both take the domain lock.
  struct tasks {
    std::function<void()> progress;
    /// Arms the waker, progresses the domain, and says whether there is nothing left to poll.
    std::function<bool(base::waker&)> may_sleep;
  };

  /// Starts it. Under the domain lock. `polls`: the application's; they outlive this.
  /// -FI_EAGAIN: there can be no more threads. Throws std::bad_alloc.
  static base::result<std::unique_ptr<progress_thread>> start(sleeping_place&& place, tasks calls,
                                                              const endpoint_rota& polls);
  /// Ends it. Not under the domain lock. A process that came by fork has no such thread and leaves
  /// it alone.
  ~progress_thread();
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

  /// Something is to be polled: wakes the thread if it sleeps. Under the domain lock.
  void notify() noexcept { place_.waker.notify(); }

 private:
  progress_thread(sleeping_place&& place, tasks&& calls, const endpoint_rota& polls);
  void run();
  bool leave_to_application();

  const tasks calls_;
  sleeping_place place_;
  const endpoint_rota& polls_;
  application_pace pace_{std::chrono::steady_clock::now()};
  std::atomic<bool> stop_{false};
  const pid_t owner_;
  std::thread thread_;
};

}  // namespace gaudi::fi
