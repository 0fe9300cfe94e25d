// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "counters.hpp"

namespace gaudi::top {

struct process {
  pid_t pid = 0;  ///< as this host's /proc has it
  uid_t uid = 0;
  page counters;
};

/// The processes below `proc` that show counters to this user, by PID.
std::vector<process> find_processes(const std::string& proc = "/proc");

struct process_result {
  std::vector<process> found;  ///< one or none
  std::string error;
};

/// One process; without one `error` says why: it is gone, another user's, or shows no counters.
process_result find_process(pid_t pid, const std::string& proc = "/proc");

}  // namespace gaudi::top
