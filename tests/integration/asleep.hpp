// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <vector>

namespace gaudi::test {

/// Waits until every thread of these processes has been asleep at 30 looks in a row, 10 ms apart,
/// but for the calling thread and those of the stand-in for the Gaudis. A thread that wants a CPU
/// and does not get one is not asleep, so how busy the machine is has no part in the answer.
/// False: that did not happen within 30 s.
bool all_fall_asleep(const std::vector<pid_t>& processes);

/// Waits, 30 s at most, until all other threads of this process are seen asleep at one look, those
/// of the stand-in included. Then none of them is within an allocator, and what forks now has a
/// child that can allocate. glibc sees to that itself; GCC 12's AddressSanitizer does not.
void let_others_fall_asleep();

}  // namespace gaudi::test
