// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/progress_thread.hpp"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/log.hpp"
#include "base/signals_blocked.hpp"

namespace gaudi::fi {
namespace {

// What needs polling, such as a device copy, takes some microseconds at least.
constexpr auto pause_between_polls = std::chrono::microseconds(5);

}  // namespace

base::result<std::unique_ptr<progress_thread>> progress_thread::start(
    sleeping_place&& place, std::function<bool(base::waker&)> may_sleep) {
  try {
    return std::unique_ptr<progress_thread>(
        new progress_thread(std::move(place), std::move(may_sleep)));
  } catch (const std::system_error& e) {
    GAUDI_WARN(DOMAIN, "the thread for FI_PROGRESS_AUTO cannot start: %s\n", e.what());
    return base::error{-FI_EAGAIN};
  }
}

progress_thread::progress_thread(sleeping_place&& place,
                                 std::function<bool(base::waker&)>&& may_sleep)
    : may_sleep_(std::move(may_sleep)), place_(std::move(place)), owner_(::getpid()) {
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
    if (may_sleep_(place_.waker) && !stop_) {
      place_.wait(-1);
    } else {
      std::this_thread::sleep_for(pause_between_polls);
    }
  }
}

}  // namespace gaudi::fi
