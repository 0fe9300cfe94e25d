// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_state.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "abi.hpp"

namespace hlsim {

uint64_t now_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

state_lock::state_lock(device_state& state) noexcept : state_(state) {
  if (::pthread_mutex_lock(&state_.mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&state_.mutex);
}

state_lock::~state_lock() {
  ::pthread_mutex_unlock(&state_.mutex);
}

bool state_lock::wait_until(uint64_t deadline_ns) noexcept {
  const timespec t{static_cast<time_t>(deadline_ns / 1'000'000'000),
                   static_cast<long>(deadline_ns % 1'000'000'000)};
  const int rc = ::pthread_cond_timedwait(&state_.cs_changed, &state_.mutex, &t);
  if (rc == EOWNERDEAD) ::pthread_mutex_consistent(&state_.mutex);
  return rc != ETIMEDOUT;
}

void initialise_sync(device_state& state) noexcept {
  pthread_mutexattr_t m;
  ::pthread_mutexattr_init(&m);
  ::pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&state.mutex, &m);
  ::pthread_mutexattr_destroy(&m);
  pthread_condattr_t c;
  ::pthread_condattr_init(&c);
  ::pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
  ::pthread_condattr_setclock(&c, CLOCK_MONOTONIC);
  ::pthread_cond_init(&state.cs_changed, &c);
  ::pthread_condattr_destroy(&c);
}

void reset_context(device_state& state) noexcept {
  std::atomic_ref(state.generation).fetch_add(1, std::memory_order_release);
  state.in_reset = 0;
  state.events = state.event_count = 0;
  state.last_handle = state.last_export = 0;
  state.next_seq = 1;
  state.user_bytes = 0;
  state.cb_end = state_bytes;
  state.mapping_count = 0;
  std::memset(state.allocations, 0, sizeof state.allocations);
  std::memset(state.page_owner, 0xff, sizeof state.page_owner);
  std::memset(state.cbs, 0, sizeof state.cbs);
  std::memset(state.exports, 0, sizeof state.exports);
  std::memset(state.cs, 0, sizeof state.cs);
}

void raise_events(device_state& state, uint64_t events) noexcept {
  state.events |= events;
  std::atomic_ref(state.event_count).fetch_add(1, std::memory_order_release);
}

void begin_reset(device_state& state, uint64_t events) noexcept {
  if (state.in_reset) return;
  std::atomic_ref(state.in_reset).store(1, std::memory_order_release);
  state.recovering = 1;
  ++state.hard_resets;
  raise_events(state, events | HL_NOTIFIER_EVENT_DEVICE_RESET);
  ::pthread_cond_broadcast(&state.cs_changed);
}

bool is_in_reset(device_state& state) noexcept {
  return std::atomic_ref(state.in_reset).load(std::memory_order_acquire) != 0;
}

}  // namespace hlsim
