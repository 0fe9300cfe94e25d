// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "node.hpp"

namespace gaudi::test {

/// The only interface of a network namespace.
class loopback {
 public:
  /// Down: what is sent gets nowhere, and connections stay. All processes of the network may call
  /// it.
  void set_up(bool up) const {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
    request.ifr_flags = static_cast<short>(up ? IFF_UP | IFF_RUNNING : 0);
    const int failed = ::ioctl(fd, SIOCSIFFLAGS, &request);
    ::close(fd);
    must(-failed, "SIOCSIFFLAGS");
  }
};

/// Runs `body` in a child that has a network of its own; its failures are the test's. Skips the
/// test where this user may not make one.
inline void in_a_network_of_its_own(const std::function<void(loopback&)>& body) {
  constexpr int skipped = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
      ::_exit(skipped);
    loopback net;
    net.set_up(true);
    body(net);
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped)
    GTEST_SKIP() << "this user may not make a network namespace";
  EXPECT_EQ(status, 0) << "see above";
}

}  // namespace gaudi::test
