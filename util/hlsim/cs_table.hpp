// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "shared_state.hpp"

// Command submissions in flight, seen by every process that shares the context: reference, sections
// 2.6 and 5.5.

namespace hlsim {

/// Reserves the next sequence number. Blocks while `limit` submissions (at most cs_slots) are in
/// flight, as the real library does; 0 when `may_go_on` says false meanwhile (asked about
/// every 100 ms, without the state_lock).
uint64_t begin_cs(device_state& state, uint32_t limit, const std::function<bool()>& may_go_on);

/// Publishes the outcome. Everything the caller wrote before is visible to whoever waits.
void finish_cs(device_state& state, uint64_t seq, cs_progress outcome);

/// hlthunk_wait_for_cs. 0 with COMPLETED or BUSY (timeout), -ETIMEDOUT, -EIO (aborted), -EINVAL
/// (a sequence number never given out).
int wait_cs(device_state& state, uint64_t seq, uint64_t timeout_us, uint32_t& status);

/// Waits until one of `seqs` has completed, in whatever way, or the timeout. Gives the set of those
/// that have, a bit each, or -EINVAL.
int wait_any_cs(device_state& state, std::span<const uint64_t> seqs, uint64_t timeout_us,
                uint32_t& completed);

/// True when no submission is in flight.
bool is_idle(device_state& state);

}  // namespace hlsim
