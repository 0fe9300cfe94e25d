// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Preloaded into programs of others that test us (fabtests, MPI libraries): who looks in vain gives
// the processor up (common/let_others_run.hpp says how). A look is a call of poll or epoll_wait
// that may not wait, or of sched_yield.
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include <cerrno>

#include "common/let_others_run.hpp"

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void looked_in_vain() noexcept {
  static const auto yield = real<int (*)()>("sched_yield");
  const int before = errno;
  gaudi::common::let_others_run(yield);
  errno = before;
}

}  // namespace

#define GAUDI_NAPS_EXPORT extern "C" __attribute__((visibility("default")))

GAUDI_NAPS_EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  static const auto call = real<int (*)(pollfd*, nfds_t, int)>("poll");
  const int ready = call(fds, count, timeout);
  if (timeout == 0 && ready == 0) looked_in_vain();
  return ready;
}

GAUDI_NAPS_EXPORT int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  static const auto call = real<int (*)(int, epoll_event*, int, int)>("epoll_wait");
  const int ready = call(fd, events, most, timeout);
  if (timeout == 0 && ready == 0) looked_in_vain();
  return ready;
}

GAUDI_NAPS_EXPORT int sched_yield() noexcept {
  looked_in_vain();
  return 0;
}
