// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/fd_listener.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "handshakes.hpp"
#include "ipc/host_kernel.hpp"

namespace gaudi::ipc {
namespace {

// Segment and dma-bufs of one connection do not stand for each other, and keep when the sender has
// hung up.
TEST(fd_listener, gives_each_matter_of_a_connection_its_own) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  const auto about = [&](std::uint64_t payload_id) {
    auto says = to(instance);
    says.payload_id = payload_id;
    return says;
  };
  std::vector<base::scoped_fd> files;
  for (const std::uint64_t payload_id : {7, 8}) {
    files.emplace_back(::memfd_create("a dma-buf", MFD_CLOEXEC));
    ASSERT_TRUE(send_fd(about(payload_id), files.back().get()));
  }
  EXPECT_FALSE(point->take(about(0)).has_value());
  for (const std::uint64_t payload_id : {8, 7}) {
    const auto came = point->take(about(payload_id));
    ASSERT_TRUE(came.has_value());
    struct stat sent {};
    struct stat got {};
    ::fstat(files[payload_id - 7].get(), &sent);
    ::fstat(came->memory.get(), &got);
    EXPECT_EQ(sent.st_ino, got.st_ino);
  }
}

// connect(2) and sendmsg(2) are two calls: another's invitation may be looked for between them.
TEST(fd_listener, waits_for_what_a_visitor_has_not_said_yet) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  const slow_visitor pending_client(instance);
  EXPECT_FALSE(point->take(to(instance, 1)).has_value());
  EXPECT_FALSE(point->take(to(instance, 1)).has_value());
  pending_client.say(to(instance, 1));
  EXPECT_TRUE(point->take(to(instance, 1)).has_value());
}

TEST(fd_listener, forgets_who_says_something_else) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  const slow_visitor pending_client(instance);
  pending_client.say_nonsense();
  EXPECT_FALSE(point->take(to(instance, 1)).has_value());
  EXPECT_TRUE(pending_client.is_hung_up_on());
}

TEST(fd_listener, keeps_no_descriptor_that_it_did_not_ask_for) {
  const auto instance = new_instance();
  auto here = fd_listener::open(instance);
  ASSERT_TRUE(here);
  const fd_handshake_id expected = to(instance);
  for (const std::size_t length : {sizeof expected, std::size_t{5}, std::size_t{0}}) {
    for (const std::size_t count : {1U, 2U, 3U, 8U}) {
      if (length == sizeof expected && count == 1) continue;
      const slow_visitor pending_client(instance);
      const int before = open_descriptors();
      pending_client.bring(&expected, length, std::vector<int>(count, STDIN_FILENO));
      EXPECT_FALSE(here->take(expected)) << length << " bytes, " << count << " descriptors";
      // One that brings nothing but an empty packet may have more to say.
      EXPECT_LE(open_descriptors(), before + (length == 0 ? 1 : 0))
          << length << " bytes, " << count << " descriptors";
    }
  }
}

// They are seen by the kernel's word, before anything is read from them.
TEST(fd_listener, turns_other_users_away_without_being_asked_for_anything) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const auto instance = new_instance();
  auto here = fd_listener::open(instance);
  ASSERT_TRUE(here);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setuid(4242) != 0) ::_exit(2);
    const slow_visitor pending_client(instance);
    if (::write(ready[1], "r", 1) != 1) ::_exit(3);
    ::_exit(pending_client.waits_until_hung_up_on() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  here->accept_pending();
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Their descriptors are the process's, which has only so many.
TEST(fd_listener, keeps_so_many_who_say_nothing_and_turns_the_oldest_away_for_more) {
  constexpr std::size_t most = 256;
  const auto instance = new_instance();
  auto here = fd_listener::open(instance);
  ASSERT_TRUE(here);
  std::deque<slow_visitor> silent;
  while (silent.size() < most) {
    silent.emplace_back(instance);
    here->accept_pending();
  }
  EXPECT_FALSE(silent[0].is_hung_up_on());
  silent.emplace_back(instance);
  here->accept_pending();
  EXPECT_TRUE(silent[0].is_hung_up_on());
  EXPECT_FALSE(silent[1].is_hung_up_on());
  EXPECT_FALSE(silent[most].is_hung_up_on());
}

/// What a child says of itself by its exit status.
enum class listening { to_its_user, to_nobody, cannot_be_tried };

/// Whether a process lets another one of its own user in, once it has become who `become` makes it.
listening listens_to_its_own(const std::function<bool()>& become) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!become()) ::_exit(static_cast<int>(listening::cannot_be_tried));
    const auto instance = new_instance();
    auto here = fd_listener::open(instance);
    const slow_visitor own(instance);
    here->accept_pending();
    ::_exit(static_cast<int>(own.is_hung_up_on() ? listening::to_nobody : listening::to_its_user));
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<listening>(WEXITSTATUS(status));
}

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

TEST(fd_listener, listens_to_its_user_in_a_namespace_that_maps_no_other) {
  const auto heard = listens_to_its_own([] {
    const std::string outside = std::to_string(::geteuid());
    return ::unshare(CLONE_NEWUSER) == 0 &&
           write_text("/proc/self/uid_map", "0 " + outside + " 1\n");
  });
  if (heard == listening::cannot_be_tried) GTEST_SKIP() << "no user namespaces";
  EXPECT_EQ(heard, listening::to_its_user);
}

// All users that it does not map look like the one that this process looks like.
TEST(fd_listener, listens_to_nobody_in_a_namespace_that_does_not_map_its_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can map other users";
  for (const std::string map : {"", "0 1 1\n", "1 1 1\n"}) {
    const auto heard = listens_to_its_own([&] {
      const pid_t self = ::getpid();
      std::array<int, 2> ready{}, mapped{};
      if (::pipe(ready.data()) != 0 || ::pipe(mapped.data()) != 0) return false;
      char byte = 0;
      // One that has stayed outside, and may write what this may not.
      const pid_t outside = ::fork();
      if (outside == 0) {
        byte = ::read(ready[0], &byte, 1) == 1 &&
               (map.empty() || write_text("/proc/" + std::to_string(self) + "/uid_map", map));
        ::_exit(::write(mapped[1], &byte, 1) == 1 ? 0 : 1);
      }
      const bool is_in = ::unshare(CLONE_NEWUSER) == 0;
      if (::write(ready[1], "r", 1) != 1 || ::read(mapped[0], &byte, 1) != 1) return false;
      ::waitpid(outside, nullptr, 0);
      return is_in && byte == 1 && ::geteuid() == 65534;
    });
    if (heard == listening::cannot_be_tried) GTEST_SKIP() << "no user namespaces";
    EXPECT_EQ(heard, listening::to_nobody) << map;
  }
}

TEST(fd_listener, listens_to_the_user_that_others_look_like_where_all_are_mapped) {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t first = 0, outside = 0, count = 0;
  map >> first >> outside >> count;
  if (::geteuid() != 0 || first != 0 || count != UINT32_MAX)
    GTEST_SKIP() << "only root, and where all are mapped";
  const auto heard = listens_to_its_own([] { return ::setuid(65534) == 0; });
  EXPECT_EQ(heard, listening::to_its_user);
}

TEST(fd_listener, is_not_opened_without_a_descriptor) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int refused = fd_listener::open(new_instance()).code();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(refused, -EMFILE);
}

TEST(fd_listener, has_a_name_that_only_one_has) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  EXPECT_EQ(fd_listener::open(instance).code(), -FI_EADDRINUSE);
  EXPECT_EQ(host_kernel::real().listen(instance).code(), -FI_EADDRINUSE);
}

TEST(fd_listener, keeps_nobody_who_has_gone_without_a_word) {
  const auto instance = new_instance();
  auto here = fd_listener::open(instance);
  ASSERT_TRUE(here);
  const int before = open_descriptors();
  {
    const slow_visitor pending_client(instance);
    here->accept_pending();
    EXPECT_EQ(open_descriptors(), before + 2) << "one here, and the visitor's";
  }
  EXPECT_FALSE(here->take(to(instance, 1)).has_value());
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace gaudi::ipc
