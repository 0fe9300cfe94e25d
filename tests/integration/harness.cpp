// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "common/let_others_run.hpp"

namespace gaudi::test {
namespace {

using clock = std::chrono::steady_clock;

// One packet of the sockets between parent and children; endpoint names are far shorter.
constexpr std::size_t max_value = 512;

// The stand-in keeps its devices here, so tests that run at the same time do not take each other's.
class scratch_folder {
 public:
  scratch_folder() {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = "/dev/shm/gaudi-test-XXXXXX";
};

// All ranks end at about the same time; one that is left waits for a rank that has failed.
constexpr std::chrono::seconds grace{20};

struct child {
  pid_t pid = -1;
  int socket = -1;
  bool running = true;
};

[[noreturn]] void be_rank(int id, const world& w, int socket,
                          const std::function<void(rank&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : w.environment) setenv(name.c_str(), value.c_str(), 1);
  bool good = true;
  try {
    rank self(id, w.ranks, socket);
    body(self);
  } catch (const std::exception& error) {
    std::cout << "rank " << id << ": " << error.what() << std::endl;
    good = false;
  }
  const bool failed = !good || testing::Test::HasFailure();
  std::cout.flush();
  std::exit(failed ? 1 : 0);
}

child start(int id, const world& w, std::vector<child>& others,
            const std::function<void(rank&)>& body) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0)
    throw std::runtime_error("socketpair failed");
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    for (const child& other : others) close(other.socket);
    close(ends[0]);
    be_rank(id, w, ends[1], body);
  }
  close(ends[1]);
  return {.pid = pid, .socket = ends[0]};
}

// Takes one packet of each child and answers all with the packets of all, until none is left.
class switchboard {
 public:
  explicit switchboard(std::vector<child>& children)
      : children_(children), values_(children.size()), present_(children.size(), false) {}

  bool idle() const {
    return std::none_of(children_.begin(), children_.end(),
                        [](const child& c) { return c.running; });
  }

  /// True once, when the first rank has ended.
  bool someone_left() {
    const bool left =
        std::any_of(children_.begin(), children_.end(), [](const child& c) { return !c.running; });
    return left && !std::exchange(reported_, true);
  }

  void step() {
    std::vector<pollfd> entries;
    for (const child& c : children_) entries.push_back({c.running ? c.socket : -1, POLLIN, 0});
    poll(entries.data(), entries.size(), 200);
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].revents != 0) take(i);
    if (std::all_of(present_.begin(), present_.end(), [](bool p) { return p; })) answer();
  }

 private:
  void take(std::size_t i) {
    std::array<char, max_value> packet{};
    const ssize_t got = recv(children_[i].socket, packet.data(), packet.size(), MSG_DONTWAIT);
    if (got <= 0) {
      children_[i].running = false;
      return;
    }
    values_[i].assign(packet.data() + 1, static_cast<std::size_t>(got) - 1);
    present_[i] = true;
  }

  void answer() {
    for (const child& c : children_)
      for (const std::string& value : values_) {
        const std::string packet = "v" + value;
        send(c.socket, packet.data(), packet.size(), MSG_NOSIGNAL);
      }
    std::fill(present_.begin(), present_.end(), false);
  }

  std::vector<child>& children_;
  std::vector<std::string> values_;
  std::vector<bool> present_;
  bool reported_ = false;
};

void reap(child& c, int id) {
  int status = 0;
  while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) {
  }
  close(c.socket);
  if (WIFSIGNALED(status))
    ADD_FAILURE() << "rank " << id << " was ended by signal " << WTERMSIG(status) << " ("
                  << strsignal(WTERMSIG(status)) << ")";
  else if (WEXITSTATUS(status) != 0)
    ADD_FAILURE() << "rank " << id << " ended with status " << WEXITSTATUS(status);
}

}  // namespace

std::vector<std::string> rank::all_gather(const std::string& value) {
  const std::string packet = "v" + value;
  if (packet.size() > max_value || ::send(socket_, packet.data(), packet.size(), MSG_NOSIGNAL) < 0)
    throw std::runtime_error("the test's parent is gone");
  std::vector<std::string> values;
  while (values.size() < static_cast<std::size_t>(size_)) {
    std::array<char, max_value> answer{};
    const ssize_t got =
        ::recv(socket_, answer.data(), answer.size(), idle_work_ ? MSG_DONTWAIT : 0);
    if (got > 0) {
      values.emplace_back(answer.data() + 1, static_cast<std::size_t>(got) - 1);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (idle_work_) idle_work_();
      common::let_others_run();
    } else {
      throw std::runtime_error("the test's parent is gone");
    }
  }
  return values;
}

void run(const world& w, const std::function<void(rank&)>& body) {
  const scratch_folder folder;
  setenv("HLSIM_DIR", folder.path(), 1);

  std::vector<child> children;
  for (int id = 0; id < w.ranks; ++id) children.push_back(start(id, w, children, body));
  switchboard board(children);
  auto end = clock::now() + w.timeout;
  while (!board.idle() && clock::now() < end) {
    board.step();
    if (board.someone_left()) end = std::min(end, clock::now() + grace);
  }
  for (int id = 0; id < w.ranks; ++id) {
    child& c = children[static_cast<std::size_t>(id)];
    if (c.running) {
      ADD_FAILURE() << "rank " << id << " was not done after " << w.timeout.count() << " s";
      kill(c.pid, SIGKILL);
    }
    reap(c, id);
  }
}

std::string provider() {
  const char* name = std::getenv("TEST_PROVIDER");
  return name != nullptr ? name : "gaudi";
}

bool is_gaudi() {
  return provider() == "gaudi";
}

bool on_verbs() {
  const char* core = std::getenv("FI_GAUDI_CORE");
  return core != nullptr && std::strcmp(core, "verbs") == 0;
}

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  // Eight at a time: a step for each byte of a GiB takes TSan a minute.
  for (std::size_t at = 0; at < size; at += sizeof state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t mixed = (state ^ state >> 32) * 0xd6e8feb86659fd93;
    std::memcpy(&bytes[at], &mixed, std::min(size - at, sizeof mixed));
  }
  return bytes;
}

void expect_same(const std::vector<std::byte>& expected, const std::vector<std::byte>& actual,
                 const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  if (expected.empty() || std::memcmp(expected.data(), actual.data(), actual.size()) == 0) return;
  const auto place = std::mismatch(expected.begin(), expected.end(), actual.begin());
  ADD_FAILURE() << what << ": byte " << place.first - expected.begin() << " of " << expected.size()
                << " is " << static_cast<int>(*place.second) << ", not "
                << static_cast<int>(*place.first);
}

}  // namespace gaudi::test
