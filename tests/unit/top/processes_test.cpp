// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include "base/counters_page.hpp"
#include "crafted_page.hpp"

namespace gaudi::top {
namespace {

using test::crafted_page;

/// A child that has done `work` and lives until this ends.
class other_process {
 public:
  explicit other_process(const std::function<void()>& work) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      work();
      static_cast<void>(!::write(ready[1], "x", 1));
      for (;;) ::pause();
    }
    char byte = 0;
    ::close(ready[1]);
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~other_process() { end(); }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

bool shows(const std::vector<process>& all, pid_t pid) {
  return std::any_of(all.begin(), all.end(), [&](const process& p) { return p.pid == pid; });
}

TEST(processes, another_process_is_read_while_it_lives_and_gone_with_it) {
  other_process other([] {
    static base::counters::published<value_list> counted({block_kind::domain, "nic7", "tcp"});
    (*counted)[16] = 12;
  });
  const pid_t pid = other.pid();
  const auto one = find_process(pid);
  ASSERT_EQ(one.found.size(), 1U) << one.error;
  EXPECT_EQ(one.found[0].pid, pid);
  EXPECT_EQ(one.found[0].uid, ::getuid());
  EXPECT_EQ(one.found[0].counters.pid, pid);
  ASSERT_EQ(one.found[0].counters.subjects.size(), 1U);
  EXPECT_EQ(one.found[0].counters.subjects[0].values[16], 12U);
  EXPECT_TRUE(shows(find_processes(), pid));
  other.end();
  EXPECT_FALSE(shows(find_processes(), pid));
  EXPECT_EQ(find_process(pid).error, "no process " + std::to_string(pid));
}

// It has its parent's page open as well.
TEST(processes, a_child_of_fork_is_shown_by_its_own_page) {
  base::counters::published<value_list> ours({block_kind::domain, "of_the_parent", "tcp"});
  const other_process silent([] {});
  EXPECT_TRUE(find_process(silent.pid()).found.empty());
  const other_process other([] {
    static base::counters::published<value_list> counted({block_kind::domain, "of_the_child", ""});
  });
  const auto one = find_process(other.pid());
  ASSERT_EQ(one.found.size(), 1U) << one.error;
  ASSERT_EQ(one.found[0].counters.subjects.size(), 1U);
  EXPECT_EQ(one.found[0].counters.subjects[0].name, "of_the_child");
}

TEST(processes, that_show_nothing_are_told_from_those_that_are_not_there) {
  const other_process silent([] {});
  EXPECT_NE(find_process(silent.pid()).error.find("it shows no counters"), std::string::npos);
  const other_process broken([] {
    crafted_page p;
    p.header().version = 4;
    static const base::scoped_fd kept = p.file();
  });
  EXPECT_NE(find_process(broken.pid()).error.find("layout version 4"), std::string::npos);
}

/// A root folder of a test's own, with a process 7 in its /proc.
class other_root {
 public:
  other_root() {
    if (!::mkdtemp(path_.data())) std::abort();
    std::filesystem::create_directories(path_ + "/proc/7/fd");
    std::ofstream(path_ + "/proc/7/status")
        << "Uid:\t501\t0\t0\t0\nNSpid:\t7\t" << ::getpid() << "\n";
  }
  ~other_root() { std::filesystem::remove_all(path_); }
  other_root(const other_root&) = delete;
  other_root& operator=(const other_root&) = delete;
  const std::string& path() const { return path_; }

  /// What a child of this process gives back after it has made this its root; none: it may not.
  std::optional<int> ask(const std::function<int()>& question) const {
    constexpr int not_permitted = 99;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);  // a FIFO would keep it for ever
      if (::geteuid() != 0) static_cast<void>(::unshare(CLONE_NEWUSER));
      ::_exit(::chroot(path_.c_str()) == 0 ? question() : not_permitted);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == not_permitted) return std::nullopt;
    return WEXITSTATUS(status);
  }

 private:
  std::string path_ = "/tmp/gaudi-top-XXXXXX";
};

// In a namespace of their own users can give any file the name of a memfd, also one that keeps who
// opens it.
TEST(processes, only_memfds_are_opened) {
  const other_root root;
  const std::string name = "/memfd:gaudi-fi-counters (deleted)";
  std::filesystem::create_symlink(name, root.path() + "/proc/7/fd/3");
  const crafted_page p;
  const auto count = [] { return static_cast<int>(find_processes().size()); };

  std::ofstream(root.path() + name)
      .write(reinterpret_cast<const char*>(p.bytes().data()),
             static_cast<std::streamsize>(p.bytes().size()));
  const auto with_file = root.ask(count);
  if (!with_file) GTEST_SKIP() << "this user may not change the root folder";
  EXPECT_EQ(*with_file, 0);
  std::filesystem::remove(root.path() + name);
  ASSERT_EQ(::mkfifo((root.path() + name).c_str(), 0600), 0);
  EXPECT_EQ(root.ask(count).value_or(-1), 0);
}

}  // namespace
}  // namespace gaudi::top
