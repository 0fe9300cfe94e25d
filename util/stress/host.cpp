// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

// Status of a worker that has said why it fails; a library's handler of signals may end it with 1.
constexpr int has_failed = 3;

std::optional<std::string> words_for(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("CRASH: ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != EXIT_SUCCESS)
    return fmt::format("CRASH: ended with status {}", WEXITSTATUS(status));
  return std::nullopt;
}

}  // namespace

host::host(life body, std::chrono::seconds timeout) : body_(std::move(body)), timeout_(timeout) {}

host::~host() {
  for (const auto& [number, pid] : workers_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

common::oob_channel host::start(unsigned number) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw failure(fmt::format("socketpair: {}", std::strerror(errno)));
  common::descriptor here(ends[0]);
  common::descriptor there(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) throw failure(fmt::format("fork: {}", std::strerror(errno)));
  if (pid == 0) {
    here = common::descriptor();
    live(std::move(there), number);
  }
  workers_[number] = pid;
  // The worker gives up first, and says what it waited for.
  return {std::move(here), 2 * timeout_};
}

void host::live(common::descriptor socket, unsigned number) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  common::oob_channel parent(std::move(socket), 4 * timeout_);
  int code = EXIT_SUCCESS;
  try {
    body_(parent, number);
  } catch (const std::exception& error) {
    parent.tell_failure(error.what());
    code = has_failed;
  }
  // Runs what libfabric does at exit, and nothing of the parent's.
  std::exit(code);
}

void host::kill(unsigned number) {
  const pid_t pid = workers_.at(number);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  workers_.erase(number);
}

std::optional<std::string> host::why_crashed(unsigned number) {
  const auto found = workers_.find(number);
  int status = 0;
  if (found == workers_.end() || ::waitpid(found->second, &status, WNOHANG) <= 0)
    return std::nullopt;
  workers_.erase(found);
  const bool has_told = WIFEXITED(status) && WEXITSTATUS(status) == has_failed;
  return has_told ? std::nullopt : words_for(status);
}

std::optional<std::string> host::join(unsigned number) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return std::nullopt;
  int status = 0;
  while (::waitpid(found->second, &status, 0) < 0 && errno == EINTR) {
  }
  workers_.erase(found);
  return words_for(status);
}

}  // namespace gaudi::stress
