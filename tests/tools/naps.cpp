// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Preloaded into programs of others that test us (fabtests, MPI libraries): who looks in vain
// several times in a row sleeps a little before the next look (integration/idle_looks.hpp says what
// for). A look is a call of poll, epoll_wait or sched_yield that may not wait.
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include <cerrno>

#include "integration/idle_looks.hpp"

namespace {

void looked(bool found) noexcept {
  static thread_local gaudi::test::idle_looks looks;
  const int before = errno;
  looks.looked(found);
  errno = before;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define GAUDI_NAPS_EXPORT extern "C" __attribute__((visibility("default")))

GAUDI_NAPS_EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  static const auto call = real<int (*)(pollfd*, nfds_t, int)>("poll");
  const int ready = call(fds, count, timeout);
  if (timeout == 0) looked(ready != 0);
  return ready;
}

GAUDI_NAPS_EXPORT int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  static const auto call = real<int (*)(int, epoll_event*, int, int)>("epoll_wait");
  const int ready = call(fd, events, most, timeout);
  if (timeout == 0) looked(ready != 0);
  return ready;
}

GAUDI_NAPS_EXPORT int sched_yield() noexcept {
  static const auto call = real<int (*)()>("sched_yield");
  looked(false);
  return call();
}
