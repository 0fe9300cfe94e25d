// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::base {

/// Tells a process from those that it came from by fork: the number differs. What was opened under
/// another number belongs to the parent, sockets and NIC queues that both would use at once; locks
/// may be held for ever. Any thread; one load.
unsigned fork_generation() noexcept;

}  // namespace gaudi::base
