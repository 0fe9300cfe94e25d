// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Children of fork(2).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#ifdef GAUDI_COVERAGE
extern "C" void __gcov_dump(void);
#endif

namespace gaudi::test {

/// Ends a child without what exit(3) would do to what it has of its parent. A build of the preset
/// coverage keeps what it has counted in the child.
[[noreturn]] inline void end_child(int status) {
#ifdef GAUDI_COVERAGE
  __gcov_dump();
#endif
  ::_exit(status);
}

/// Whether it is so in a child of fork.
template <class Question>
bool holds_in_child(Question&& question) {
  const pid_t child = ::fork();
  if (child == 0) end_child(question() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace gaudi::test
