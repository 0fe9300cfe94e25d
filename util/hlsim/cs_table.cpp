// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cs_table.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>

#include "abi.hpp"

namespace hlsim {
namespace {

constexpr uint64_t tick_ns = 100'000'000;

cs_slot& slot_of(device_state& state, uint64_t seq) noexcept {
  return state.cs[seq % cs_slots];
}

/// Under the state_lock; is_running reads without it.
void set_progress(cs_slot& slot, cs_progress progress) noexcept {
  std::atomic_ref(slot.progress).store(progress, std::memory_order_release);
}

/// Polled often, so without the mutex that the engine needs. Says yes only while it is so.
bool is_running(device_state& state, uint64_t seq) noexcept {
  cs_slot& slot = slot_of(state, seq);
  return std::atomic_ref(slot.progress).load(std::memory_order_acquire) == cs_progress::running &&
         std::atomic_ref(slot.seq).load(std::memory_order_relaxed) == seq;
}

/// A process that died leaves its submissions running for ever; the driver would have aborted them.
void abort_if_orphan(cs_slot& slot) noexcept {
  if (slot.progress == cs_progress::running && ::kill(slot.pid, 0) != 0 && errno == ESRCH)
    set_progress(slot, cs_progress::aborted);
}

uint64_t deadline_after(uint64_t timeout_us) noexcept {
  const uint64_t now = now_ns();
  return timeout_us > (UINT64_MAX / 2 - now) / 1000 ? UINT64_MAX / 2 : now + timeout_us * 1000;
}

int outcome(const cs_slot& slot, uint64_t seq, uint32_t& status) noexcept {
  status = HL_WAIT_CS_STATUS_COMPLETED;
  if (slot.seq != seq) return 0;  // retired long ago
  switch (slot.progress) {
    case cs_progress::running:
      status = HL_WAIT_CS_STATUS_BUSY;
      return 0;
    case cs_progress::timed_out:
      status = HL_WAIT_CS_STATUS_TIMEDOUT;
      return -ETIMEDOUT;
    case cs_progress::aborted:
      status = HL_WAIT_CS_STATUS_ABORTED;
      return -EIO;
    default:
      return 0;
  }
}

/// The submission that must have ended before another begins; null: there is none.
cs_slot* in_the_way(device_state& state, uint32_t limit) noexcept {
  if (state.next_seq <= limit) return nullptr;
  cs_slot& slot = slot_of(state, state.next_seq - limit);
  return slot.progress == cs_progress::running ? &slot : nullptr;
}

/// The next sequence number, or 0 when too many are still in flight after a tick, or a reset has
/// ended those.
uint64_t begin_within_tick(device_state& state, uint32_t limit) {
  const uint64_t deadline = now_ns() + tick_ns;
  state_lock lock(state);
  while (cs_slot* const oldest = in_the_way(state, limit)) {
    if (lock.wait_until(deadline)) continue;
    abort_if_orphan(*oldest);
    if (in_the_way(state, limit)) return 0;
  }
  if (is_in_reset(state)) return 0;
  const uint64_t seq = state.next_seq++;
  cs_slot& slot = slot_of(state, seq);
  slot.pid = ::getpid();
  std::atomic_ref(slot.seq).store(seq, std::memory_order_relaxed);
  set_progress(slot, cs_progress::running);
  return seq;
}

}  // namespace

uint64_t begin_cs(device_state& state, uint32_t limit, const std::function<bool()>& may_go_on) {
  while (true) {
    if (const uint64_t seq = begin_within_tick(state, limit); seq != 0) return seq;
    if (!may_go_on()) return 0;  // asked without the lock, which it takes itself
  }
}

void finish_cs(device_state& state, uint64_t seq, cs_progress result) {
  {
    const state_lock lock(state);
    if (is_running(state, seq)) set_progress(slot_of(state, seq), result);
  }
  tell_cs_changed(state);  // outside, so that the woken find the lock free
}

int wait_cs(device_state& state, uint64_t seq, uint64_t timeout_us, uint32_t& status) {
  if (timeout_us == 0 && is_running(state, seq)) {
    status = HL_WAIT_CS_STATUS_BUSY;
    return 0;
  }
  state_lock lock(state);
  if (seq == 0 || seq >= state.next_seq) return -EINVAL;
  cs_slot& slot = slot_of(state, seq);
  const uint64_t deadline = timeout_us == 0 ? 0 : deadline_after(timeout_us);
  while (slot.seq == seq && slot.progress == cs_progress::running) {
    const uint64_t now = now_ns();
    if (now >= deadline) break;
    if (!lock.wait_until(std::min(deadline, now + tick_ns))) abort_if_orphan(slot);
  }
  return outcome(slot, seq, status);
}

int wait_any_cs(device_state& state, std::span<const uint64_t> seqs, uint64_t timeout_us,
                uint32_t& completed) {
  const uint64_t deadline = timeout_us == 0 ? 0 : deadline_after(timeout_us);
  state_lock lock(state);
  while (true) {
    completed = 0;
    for (size_t i = 0; i < seqs.size(); ++i) {
      if (seqs[i] == 0 || seqs[i] >= state.next_seq) return -EINVAL;
      cs_slot& slot = slot_of(state, seqs[i]);
      const bool runs = slot.seq == seqs[i] && slot.progress == cs_progress::running;
      if (!runs) completed |= 1U << i;
    }
    const uint64_t now = now_ns();
    if (completed != 0 || now >= deadline) return 0;
    if (lock.wait_until(std::min(deadline, now + tick_ns))) continue;
    for (const uint64_t seq : seqs) abort_if_orphan(slot_of(state, seq));
  }
}

bool is_idle(device_state& state) {
  const state_lock lock(state);
  return std::none_of(std::begin(state.cs), std::end(state.cs),
                      [](const cs_slot& s) { return s.progress == cs_progress::running; });
}

}  // namespace hlsim
