// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Peers behind a stream that have gone without a word, as a machine that lost its power.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "base/scoped_fd.hpp"
#include "cut_tcp.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto::test {
namespace {

using namespace std::chrono_literals;

constexpr auto link_timeout = 40ms;

endpoint::settings noticing_silence() {
  auto s = with_sessions();
  s.limits.link_timeout = link_timeout;
  return s;
}

/// Takes the node's ends of its connections from the kernel, which tells the other ends nothing
/// (tcp(7), TCP_REPAIR). Whether that is allowed here.
bool vanish(const node& n) {
  const base::scoped_fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int on = 1;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in own{};
    socklen_t length = sizeof own;
    if (!is_connection_of(fd, {port_of(n)}) ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
        own.sin_port != port_of(n))
      continue;
    if (::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0) return false;
    ::dup3(nothing.get(), fd, O_CLOEXEC);
  }
  return true;
}

/// Waits until the kernels have all that was sent between the node and its peers.
void wait_for_acknowledgements(const node& n) {
  bool all = false;
  while (!all) {
    all = true;
    for (int fd = 3; fd < 1024; ++fd) {
      tcp_info info{};
      socklen_t length = sizeof info;
      if (is_connection_of(fd, {port_of(n)}) &&
          ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_unacked != 0)
        all = false;
    }
  }
}

class link_watch_over_tcp : public testing::Test {
 protected:
  // The peer's port is where this end connected to.
  void SetUp() override {
    ASSERT_TRUE(a.ep->enable({.waitable = true}));
    ASSERT_TRUE(b.ep->enable());
    to_b = a.meet(b);
    ASSERT_EQ(b.receive(memory_of(in.data(), in.size()), 1, nullptr), 0);
    ASSERT_EQ(a.send(to_b, memory_of(in.data(), 1), 1, nullptr), 0);
    ASSERT_TRUE(progress_until({&a, &b}, [&] { return !b.queue.empty() && !a.queue.empty(); }));
    a.take();
    b.take();
  }
  void send_what_waits_for_b() {
    ASSERT_EQ(a.send(to_b, memory_of(in.data(), in.size()), 2, nullptr), 0);
    ASSERT_TRUE(
        progress_until({&a, &b}, [&] { return b.ep->receives().unexpected_messages() == 1; }));
  }
  [[nodiscard]] bool has_noticed() const { return a.paths.connections.interrupted == 1; }
  // What either end says some time after a packet has been said.
  void become_quiet() {
    const auto quiet = std::chrono::steady_clock::now() + 300ms;
    while (std::chrono::steady_clock::now() < quiet || a.ep->try_wait() != 0) b.ep->progress();
  }
  void sleep_until_it_notices() {
    EXPECT_TRUE(progress_until({&a}, [&] {
      if (a.ep->try_wait() == 0) sleep_once();
      return has_noticed();
    }));
  }
  // For as long as a test may take.
  void sleep_once() {
    std::vector<pollfd> fds;
    for (const int fd : a.ep->wait_fds()) fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    EXPECT_GT(::poll(fds.data(), fds.size(), 30'000), 0) << "nothing wakes it";
  }

  node a{noticing_silence()};
  node b{noticing_silence()};
  fi_addr_t to_b = 0;
  std::vector<std::byte> in = std::vector<std::byte>(1 << 20);
};

TEST_F(link_watch_over_tcp, notices_that_a_peer_has_vanished_while_it_waits_for_its_answer) {
  send_what_waits_for_b();
  if (!vanish(b)) GTEST_SKIP() << "TCP_REPAIR wants CAP_NET_ADMIN";
  EXPECT_TRUE(progress_until({&a}, [&] { return has_noticed(); }));
}

// It takes several looks to find that a peer is silent.
TEST_F(link_watch_over_tcp, wakes_a_thread_that_sleeps_in_time_for_each_look) {
  send_what_waits_for_b();
  become_quiet();
  itimerspec alarm{};
  ASSERT_EQ(::timerfd_gettime(a.ep->wait_fds().back(), &alarm), 0);
  const auto next = std::chrono::seconds(alarm.it_value.tv_sec) +
                    std::chrono::nanoseconds(alarm.it_value.tv_nsec);
  EXPECT_LE(next, link_timeout / 4);
}

// Of a thread that sleeps, too: what wakes it is not the peer.
TEST_F(link_watch_over_tcp, wakes_a_thread_that_sleeps_until_the_answer_comes) {
  send_what_waits_for_b();
  become_quiet();
  if (!vanish(b)) GTEST_SKIP() << "TCP_REPAIR wants CAP_NET_ADMIN";
  sleep_until_it_notices();
}

// It is the kernel's of a peer that makes no progress.
TEST_F(link_watch_over_tcp, wakes_a_thread_that_sleeps_until_its_rma_is_done) {
  reg::region region;
  b.expose(region, in);
  become_quiet();
  std::byte written{1};
  ASSERT_EQ(a.ep->write(memory_of(&written, 1), {.target = to_b,
                                                 .address = region.address,
                                                 .key = region.key,
                                                 .completion = a.completion(&written)}),
            0);
  wait_for_acknowledgements(b);
  if (!vanish(b)) GTEST_SKIP() << "TCP_REPAIR wants CAP_NET_ADMIN";
  sleep_until_it_notices();
}

TEST_F(link_watch_over_tcp, asks_nothing_where_nothing_waits) {
  become_quiet();
  wait_for_acknowledgements(b);
  if (!vanish(b)) GTEST_SKIP() << "TCP_REPAIR wants CAP_NET_ADMIN";
  const auto end = std::chrono::steady_clock::now() + 10 * link_timeout;
  while (std::chrono::steady_clock::now() < end) a.ep->progress();
  EXPECT_FALSE(has_noticed());
}

}  // namespace
}  // namespace gaudi::proto::test
