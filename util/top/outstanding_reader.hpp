// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/outstanding_layout.hpp"

namespace gaudi::top {

/// What a process waits for, at one moment.
struct outstanding_view {
  pid_t pid = 0;     ///< as this host's /proc has it
  char state = '?';  ///< as field 3 of /proc/PID/stat has it
  std::string command;
  std::vector<base::outstanding::record> operations;  ///< the oldest first
  std::vector<base::outstanding::record> connections;
  std::vector<base::outstanding::record> endpoints;
  std::size_t unread = 0;  ///< records that the process ended or was stopped in the middle of
  std::vector<base::outstanding::record> calls;  ///< the oldest first
};

struct outstanding_result {
  std::vector<outstanding_view> found;  ///< one or none
  std::string error;
};

/// Reads the page behind a descriptor of a memfd, of the process that calls itself `pid`. Anybody
/// may have written it: nothing in it is believed that leads outside of it.
outstanding_result read_outstanding(int fd, int pid);

/// One process's; without one `error` says why, as find_process() does.
outstanding_result find_outstanding(pid_t pid, const std::string& proc = "/proc");
/// Those of all processes that show theirs to this user, by PID.
std::vector<outstanding_view> find_all_outstanding(const std::string& proc = "/proc");

}  // namespace gaudi::top
