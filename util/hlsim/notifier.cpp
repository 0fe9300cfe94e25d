// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "notifier.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <chrono>

#include "context.hpp"

namespace hlsim {
namespace {

constexpr std::chrono::milliseconds look_every{10};

uint64_t count_of(device_state& state) {
  return std::atomic_ref(state.event_count).load(std::memory_order_acquire);
}

/// A device that a fault only makes look as if it were in reset. A removal is told by no event.
uint64_t raise_for_fault(device_state& state) {
  const state_lock lock(state);
  raise_events(state, HL_NOTIFIER_EVENT_DEVICE_RESET);
  return state.event_count;
}

}  // namespace

std::pair<int, std::unique_ptr<notifier>> notifier::create(const context& of) {
  scoped_fd users(::eventfd(0, EFD_CLOEXEC));
  scoped_fd ours(users ? ::fcntl(users.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!ours) return {-errno, nullptr};
  std::unique_ptr<notifier> made(new notifier(of, std::move(ours)));
  made->thread_ = std::thread([n = made.get()] { n->watch(); });
  return {users.release(), std::move(made)};
}

notifier::~notifier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

/// Nothing more is to be told once the device is lost; the thread only stays to be joined, since
/// its context may outlive main().
void notifier::watch() {
  ::pthread_setname_np(::pthread_self(), "hlsim-events");
  uint64_t told = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const int status = of_.status();
    uint64_t now = count_of(of_.state());
    if (status > HL_DEVICE_STATUS_OPERATIONAL && now == told) now = raise_for_fault(of_.state());
    if (now != told) ::eventfd_write(event_.get(), now - told);
    told = now;
    if (status != HL_DEVICE_STATUS_OPERATIONAL) return ends_.wait(lock, [this] { return stop_; });
    ends_.wait_for(lock, look_every);
  }
}

}  // namespace hlsim
