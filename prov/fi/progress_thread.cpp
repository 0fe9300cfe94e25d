// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/progress_thread.hpp"

#include <pthread.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/log.hpp"
#include "base/signals_blocked.hpp"
#include "fi/domain.hpp"

namespace gaudi::fi {
namespace {

// What needs polling, such as a device copy, takes some microseconds at least.
constexpr auto pause_between_polls = std::chrono::microseconds(5);

}  // namespace

base::result<std::unique_ptr<progress_thread>> progress_thread::start(domain& d) {
  auto place = d.open_sleeping_place();
  if (!place) return place.failure();
  try {
    return std::unique_ptr<progress_thread>(
        new progress_thread(d, std::move(place->set), std::move(place->waker)));
  } catch (const std::system_error& e) {
    GAUDI_WARN(DOMAIN, "the thread for FI_PROGRESS_AUTO cannot start: %s\n", e.what());
    return base::error{-FI_EAGAIN};
  }
}

progress_thread::progress_thread(domain& d, base::event_set set, base::waker waker)
    : domain_(d), set_(std::move(set)), waker_(std::move(waker)), owner_(::getpid()) {
  const base::signals_blocked while_it_starts;
  thread_ = std::thread([this] { run(); });
}

progress_thread::~progress_thread() {
  if (::getpid() != owner_) {
    thread_.detach();
    return;
  }
  stop_ = true;
  waker_.ring();
  thread_.join();
}

void progress_thread::run() {
  ::pthread_setname_np(::pthread_self(), "gaudi-progress");
  while (!stop_) {
    if (may_sleep()) {
      set_.wait(-1);
    } else {
      std::this_thread::sleep_for(pause_between_polls);
    }
  }
}

bool progress_thread::may_sleep() {
  const base::scoped_domain_lock lock(domain_.lock());
  waker_.arm();
  return domain_.try_wait() == 0 && !stop_;
}

}  // namespace gaudi::fi
