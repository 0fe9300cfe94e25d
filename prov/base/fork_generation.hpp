// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>

namespace gaudi::base {

/// Written only in the child of a fork.
extern std::atomic<unsigned> forks_so_far;

/// Tells a process from those that it came from by fork: the number differs. What was opened under
/// another number belongs to the parent, sockets and NIC queues that both would use at once; locks
/// may be held for ever. Any thread. Forks count from the first call on, so whoever opens something
/// calls this.
unsigned fork_generation() noexcept;

/// The same in one load, for who has called that.
inline unsigned current_fork_generation() noexcept {
  return forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace gaudi::base
