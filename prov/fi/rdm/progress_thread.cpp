// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/progress_thread.hpp"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/signals_blocked.hpp"

namespace gaudi::fi {
namespace {

// What needs polling, such as a device copy, takes some microseconds at least.
constexpr auto pause_between_polls = std::chrono::microseconds(5);

constexpr auto nap = application_pace::max_interval;

// Of this thread's.
std::chrono::nanoseconds cpu_time() noexcept {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

base::result<std::unique_ptr<progress_thread>> progress_thread::start(sleeping_place&& place,
                                                                      tasks calls,
                                                                      const endpoint_rota& polls) {
  try {
    return std::unique_ptr<progress_thread>(
        new progress_thread(std::move(place), std::move(calls), polls));
  } catch (const std::system_error& e) {
    GAUDI_WARN(DOMAIN, "the thread for FI_PROGRESS_AUTO cannot start: %s\n", e.what());
    return base::error{-FI_EAGAIN};
  }
}

progress_thread::progress_thread(sleeping_place&& place, tasks&& calls, const endpoint_rota& polls)
    : calls_(std::move(calls)), place_(std::move(place)), polls_(polls), owner_(::getpid()) {
  const base::signals_blocked while_it_starts;
  thread_ = std::thread([this] { run(); });
}

progress_thread::~progress_thread() {
  if (::getpid() != owner_) {
    thread_.detach();
    return;
  }
  stop_ = true;
  place_.waker.ring();
  thread_.join();
}

void progress_thread::run() {
  ::pthread_setname_np(::pthread_self(), "gaudi-progress");
  std::chrono::nanoseconds at_sleep{};  // CPU time used until then
  bool is_woken = false;                // and has not napped since
  while (!stop_) {
    if (leave_to_application()) is_woken = false;
    if (calls_.may_sleep(place_.waker) && !stop_) {
      const auto used = cpu_time();
      if (is_woken) pace_.woken_for(used - at_sleep);
      at_sleep = used;
      is_woken = true;
      place_.wait(-1);
    } else {
      std::this_thread::sleep_for(pause_between_polls);
    }
  }
}

// Nothing is armed meanwhile, and nobody else takes the lock, but where the application polls
// queues that do not concern all endpoints. Whether there was any nap.
bool progress_thread::leave_to_application() {
  bool any = false;
  while (!stop_ && pace_.is_often(std::chrono::steady_clock::now(), polls_.polls())) {
    const unsigned rounds = polls_.rounds();
    any = true;
    std::this_thread::sleep_for(nap);
    if (polls_.rounds() == rounds) calls_.progress();
  }
  return any;
}

}  // namespace gaudi::fi
