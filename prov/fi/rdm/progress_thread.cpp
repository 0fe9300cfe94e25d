// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/progress_thread.hpp"

#include <pthread.h>
#include <rdma/fi_errno.h>
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

constexpr auto nap = std::chrono::milliseconds(1);
// An application that polls less often is taken to be computing, and its operations go on in the
// meantime.
constexpr auto max_between_polls = std::chrono::microseconds(250);

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
  while (!stop_) {
    leave_to_application();
    if (calls_.may_sleep(place_.waker) && !stop_) {
      place_.wait(-1);
    } else {
      std::this_thread::sleep_for(pause_between_polls);
    }
  }
}

// Nothing is armed meanwhile, and nobody else takes the lock, but where the application polls
// queues that do not concern all endpoints.
void progress_thread::leave_to_application() {
  while (!stop_ && application_polls()) {
    const unsigned rounds = polls_.rounds();
    std::this_thread::sleep_for(nap);
    if (polls_.rounds() == rounds) calls_.progress();
  }
}

// Since the last time that this was asked.
bool progress_thread::application_polls() noexcept {
  const auto since = std::exchange(looked_at_, std::chrono::steady_clock::now());
  const unsigned before = std::exchange(seen_polls_, polls_.polls());
  return (seen_polls_ - before) * max_between_polls > looked_at_ - since;
}

}  // namespace gaudi::fi
