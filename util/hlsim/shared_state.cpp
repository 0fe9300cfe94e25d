// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared_state.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
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
  lock();
}

state_lock::~state_lock() {
  unlock();
}

void state_lock::lock() noexcept {
  if (::pthread_mutex_lock(&state_.mutex) == EOWNERDEAD) ::pthread_mutex_consistent(&state_.mutex);
}

void state_lock::unlock() noexcept {
  ::pthread_mutex_unlock(&state_.mutex);
}

bool state_lock::wait_until(uint64_t deadline_ns) noexcept {
  const timespec t{static_cast<time_t>(deadline_ns / 1'000'000'000),
                   static_cast<long>(deadline_ns % 1'000'000'000)};
  const uint32_t seen = std::atomic_ref(state_.cs_changes).load(std::memory_order_acquire);
  unlock();
  const long rc = ::syscall(SYS_futex, &state_.cs_changes, FUTEX_WAIT_BITSET, seen, &t, nullptr,
                            FUTEX_BITSET_MATCH_ANY);
  const bool is_late = rc != 0 && errno == ETIMEDOUT;
  lock();
  return !is_late;
}

void tell_cs_changed(device_state& state) noexcept {
  std::atomic_ref(state.cs_changes).fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &state.cs_changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void initialise_sync(device_state& state) noexcept {
  pthread_mutexattr_t m;
  ::pthread_mutexattr_init(&m);
  ::pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&state.mutex, &m);
  ::pthread_mutexattr_destroy(&m);
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
  tell_cs_changed(state);
}

bool is_in_reset(device_state& state) noexcept {
  return std::atomic_ref(state.in_reset).load(std::memory_order_acquire) != 0;
}

}  // namespace hlsim
