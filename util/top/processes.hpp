// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/scoped_fd.hpp"
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

/// The files of a process that are memfds of this name: descriptors, opened for reading. `error`:
/// why there is none.
std::vector<base::scoped_fd> open_pages(const std::string& folder, const char* name,
                                        std::string& error);

/// What /proc says of a process. None: it is gone.
struct identity {
  uid_t uid = 0;
  int innermost_pid = 0;  ///< in the process's own PID namespace
  char state = '?';       ///< as field 3 of /proc/PID/stat has it
};
std::optional<identity> identity_of(const std::string& folder);

/// The processes that there are, by PID.
std::vector<int> all_pids(const std::string& proc);

}  // namespace gaudi::top
