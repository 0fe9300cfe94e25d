// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "children.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/failure.hpp"
#include "interruption.hpp"

namespace gaudi::stress {
namespace {

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

children::children(life body) : body_(std::move(body)) {}

children::~children() {
  for (const auto& [number, pid] : workers_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void children::start(unsigned number, const connect& to_leader) {
  const pid_t pid = ::fork();
  if (pid < 0) throw common::failure(fmt::format("fork: {}", std::strerror(errno)));
  if (pid == 0) live(to_leader, number);
  workers_[number] = pid;
}

void children::live(const connect& to_leader, unsigned number) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  leave_interruptions_to_leader();
  int code = has_failed;
  try {
    common::oob_channel leader = to_leader();
    try {
      body_(leader, number);
      code = EXIT_SUCCESS;
    } catch (const std::exception& error) {
      leader.tell_failure(error.what());
    }
  } catch (const std::exception&) {
    // The leader names the worker that does not connect.
  }
  // Runs what libfabric does at exit, and nothing of the parent's.
  std::exit(code);
}

void children::kill(unsigned number) {
  const pid_t pid = workers_.at(number);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  workers_.erase(number);
}

std::optional<std::string> children::why_crashed(unsigned number) {
  const auto found = workers_.find(number);
  int status = 0;
  if (found == workers_.end() || ::waitpid(found->second, &status, WNOHANG) <= 0)
    return std::nullopt;
  workers_.erase(found);
  const bool has_told = WIFEXITED(status) && WEXITSTATUS(status) == has_failed;
  return has_told ? std::nullopt : words_for(status);
}

std::optional<std::string> children::join(unsigned number) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return std::nullopt;
  int status = 0;
  while (::waitpid(found->second, &status, 0) < 0 && errno == EINTR) {
  }
  workers_.erase(found);
  return words_for(status);
}

}  // namespace gaudi::stress
