// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "local_host.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/failure.hpp"
#include "worker.hpp"

namespace gaudi::stress {

local_host::local_host(std::chrono::seconds timeout) : timeout_(timeout), workers_(work) {}

common::oob_channel local_host::start(unsigned number) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw common::failure(fmt::format("socketpair: {}", std::strerror(errno)));
  common::descriptor here(ends[0]);
  common::descriptor there(ends[1]);
  workers_.start(number, [&] {
    here = common::descriptor();
    return common::oob_channel(std::move(there), 4 * timeout_);
  });
  // The worker gives up first, and says what it waited for.
  return {std::move(here), 2 * timeout_};
}

// At once: a process that is forked later would print what is left again.
void local_host::print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace gaudi::stress
