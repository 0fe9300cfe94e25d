// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A sender that copies along (cooperative_copy.cpp) and is stopped in the middle of a piece: it
// writes to the receiver's memory when it goes on, so the receiver is told of no end before.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <utility>

#include "endpoint_node.hpp"
#include "sim/audit.hpp"

namespace {

/// What happens before the next piece is written to another's memory, or read from there. Empty:
/// nothing.
std::function<void()> before_write;
std::function<void()> before_read;
/// What reads, and writes, fail with; 0: they do not.
int read_error = 0;
int write_error = 0;

using copy_call = ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                          unsigned long);

}  // namespace

extern "C" {
[[gnu::visibility("default")]] ssize_t process_vm_writev(pid_t pid, const iovec* local,
                                                         unsigned long locals, const iovec* remote,
                                                         unsigned long remotes,
                                                         unsigned long flags) {
  static auto* const real = reinterpret_cast<copy_call*>(dlsym(RTLD_NEXT, "process_vm_writev"));
  if (before_write) std::exchange(before_write, nullptr)();
  if (write_error != 0) {
    errno = write_error;
    return -1;
  }
  return real(pid, local, locals, remote, remotes, flags);
}
[[gnu::visibility("default")]] ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                        unsigned long locals, const iovec* remote,
                                                        unsigned long remotes,
                                                        unsigned long flags) {
  static auto* const real = reinterpret_cast<copy_call*>(dlsym(RTLD_NEXT, "process_vm_readv"));
  if (before_read) std::exchange(before_read, nullptr)();
  if (read_error != 0) {
    errno = read_error;
    return -1;
  }
  return real(pid, local, locals, remote, remotes, flags);
}
}

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::pass;
using test::progress_until;

void end_connections_of_process() {
  sockaddr_storage peer{};
  for (int fd = 0; fd < 1024; ++fd) {
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.ss_family == AF_INET)
      ::shutdown(fd, SHUT_RDWR);
  }
}

class stopped_helper : public testing::Test {
 protected:
  explicit stopped_helper(const endpoint::settings& s = with_ipc()) : sender(s), receiver(s) {
    pass(sender, to, receiver, 100, 1);
    sent = counting(1'000'000, 2);
    got.resize(sent.size());
  }
  ~stopped_helper() override {
    before_write = nullptr;
    before_read = nullptr;
    read_error = 0;
    write_error = 0;
  }

  /// Lets the sender be stopped in the middle of its first piece, while `meanwhile` happens and the
  /// receiver goes on. Returns what the receiver is told in the end.
  cq_entry stop_during(const std::function<void()>& meanwhile) {
    stalled = 0;
    bool was_stopped = false;
    bool told_early = false;
    before_write = [&] {
      was_stopped = true;
      meanwhile();
      for (int i = 0; i < 1000; ++i) receiver.ep->progress();
      told_early = !receiver.queue.empty();
      stalled = endpoint_audit::stalled(*receiver.ep);
      read_error = 0;
    };
    EXPECT_EQ(receiver.receive(memory_of(got.data(), got.size()), 2, &receiver), 0);
    EXPECT_EQ(sender.send(to, memory_of(sent.data(), sent.size()), 2, &sender), 0);
    EXPECT_TRUE(progress_until({&sender, &receiver}, [&] { return !receiver.queue.empty(); }));
    EXPECT_TRUE(was_stopped);
    EXPECT_FALSE(told_early) << "the sender had still to write to its memory";
    return receiver.take();
  }

  static endpoint::settings with_ipc() {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    return s;
  }

  live_node sender;
  live_node receiver;
  const fi_addr_t to = sender.meet(receiver);
  std::vector<std::byte> sent;
  std::vector<std::byte> got;
  std::size_t stalled = 0;  // transfers of the receiver's at the end of stop_during's `meanwhile`
};

TEST_F(stopped_helper, is_waited_for_where_the_receiver_fails) {
  EXPECT_EQ(stop_during([] { read_error = EFAULT; }).error, FI_EFAULT);
}

TEST_F(stopped_helper, is_waited_for_where_the_connection_has_ended) {
  const auto end = [&] {
    end_connections_of_process();
    EXPECT_TRUE(progress_until({&receiver}, [&] { return receiver.paths.connections.lost != 0; }));
  };
  EXPECT_NE(stop_during(end).error, 0);
}

// The piece that it had taken is missing, and nobody else would copy that.
TEST_F(stopped_helper, that_cannot_write_its_piece_leaves_all_to_the_receiver) {
  before_write = [] { write_error = EFAULT; };
  ASSERT_EQ(receiver.receive(memory_of(got.data(), got.size()), 2, &receiver), 0);
  ASSERT_EQ(sender.send(to, memory_of(sent.data(), sent.size()), 2, &sender), 0);
  EXPECT_EQ(test::wait(receiver, {&sender, &receiver}).error, 0);
  EXPECT_FALSE(before_write) << "the sender has helped";
  EXPECT_EQ(got, sent);
  EXPECT_EQ(test::wait(sender, {&sender, &receiver}).error, 0);
}

// All of the message goes that way then, while the sender may still write a piece of it.
TEST_F(stopped_helper, is_waited_for_where_the_receiver_has_to_find_another_way) {
  EXPECT_EQ(stop_during([] { read_error = EPERM; }).error, 0);
  EXPECT_EQ(stalled, 1U);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(test::wait(sender, {&sender, &receiver}).error, 0);
}

/// A sender that closes while its memory is read: whether its application has unmapped that since.
class closing_sender : public stopped_helper, public testing::WithParamInterface<bool> {};

TEST_P(closing_sender, ends_the_receive_by_its_end) {
  constexpr std::size_t length = 100'000;
  before_read = [&] {
    sender.ep->shut_down();
    if (GetParam()) read_error = EFAULT;
  };
  ASSERT_EQ(receiver.receive(memory_of(got.data(), length), 2, &receiver), 0);
  ASSERT_EQ(sender.send(to, memory_of(sent.data(), length), 2, &sender), 0);
  EXPECT_EQ(test::wait(receiver, {&receiver}).error, FI_ECONNRESET);
  EXPECT_FALSE(before_read);
}

INSTANTIATE_TEST_SUITE_P(memory, closing_sender, testing::Values(false, true));

/// A process that worked loses the right to read its neighbour's memory: its privileges (EPERM), by
/// a security module (EACCES), by a late seccomp filter (whatever that says, ENOSYS as a rule).
class denied_reader : public stopped_helper, public testing::WithParamInterface<int> {
 protected:
  [[nodiscard]] bool has_not_read_badly() const {
    return receiver.core->reads_safely() || receiver.paths.direct_ops == 0;
  }
};

TEST_P(denied_reader, still_gets_what_is_sent) {
  constexpr std::size_t length = 100'000;
  for (std::uint64_t tag = 2; tag < 5; ++tag) {
    std::fill(got.begin(), got.end(), std::byte{});
    ASSERT_EQ(receiver.receive(memory_of(got.data(), length), tag, &receiver), 0);
    ASSERT_EQ(sender.send(to, memory_of(sent.data(), length), tag, &sender), 0);
    EXPECT_EQ(test::wait(receiver, {&receiver, &sender}).error, 0);
    EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + length, got.begin())) << tag;
    read_error = GetParam();
  }
  EXPECT_TRUE(has_not_read_badly());
}

TEST_P(denied_reader, still_gets_that_of_which_it_has_a_part) {
  before_read = [] { before_read = [] { read_error = GetParam(); }; };
  ASSERT_EQ(receiver.receive(memory_of(got.data(), got.size()), 2, &receiver), 0);
  ASSERT_EQ(sender.send(to, memory_of(sent.data(), sent.size()), 2, &sender), 0);
  EXPECT_EQ(test::wait(receiver, {&receiver, &sender}).error, 0);
  EXPECT_NE(read_error, 0);
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(has_not_read_badly());
}

INSTANTIATE_TEST_SUITE_P(errors, denied_reader, testing::Values(EPERM, EACCES, ENOSYS));

/// Connections between these are made again.
struct copying_between_sessions : stopped_helper {
  static endpoint::settings lasting() {
    auto s = with_ipc();
    s.limits.reconnect_timeout = std::chrono::hours(1);
    return s;
  }
  copying_between_sessions() : stopped_helper(lasting()) {}
};

// No connection that is made again would help.
TEST_F(copying_between_sessions, fails_alone_where_memory_is_not_there) {
  before_read = [] { read_error = EFAULT; };
  ASSERT_EQ(receiver.receive(memory_of(got.data(), 100'000), 2, &receiver), 0);
  ASSERT_EQ(sender.send(to, memory_of(sent.data(), 100'000), 2, &sender), 0);
  EXPECT_EQ(test::wait(receiver, {&receiver, &sender}).error, FI_EFAULT);
  EXPECT_NE(test::wait(sender, {&receiver, &sender}).error, 0);
  read_error = 0;
  pass(sender, to, receiver, 100'000, 3);
  EXPECT_EQ(receiver.paths.connections.interrupted + sender.paths.connections.interrupted, 0U);
  EXPECT_EQ(receiver.paths.again.rma, 0U);
}

}  // namespace
}  // namespace gaudi::proto
