// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The order in which an endpoint hears of its connections.
#include "proto/connection/connection_manager.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

/// A connection manager with what it needs of an endpoint, which writes down what it hears.
class side final : private connection_observer {
 public:
  explicit side(std::uint16_t port = 0) : side(port, false, {}) {}
  /// One that shares memory; `random` gives its instance first.
  explicit side(base::random_source random) : side(0, true, random) {}
  ~side() { manager.reset(); }
  side(const side&) = delete;
  side& operator=(const side&) = delete;

  /// Lets the core see what there is, and leaves it where it is.
  void look() {
    std::uint32_t event = 0;
    alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 256];
    auto* const queue = reinterpret_cast<fid_eq*>(manager->connector().events());
    fi_eq_read(queue, &event, space, sizeof space, FI_PEEK);
  }

  void poll() {
    manager->poll_now();
    take_packets();
  }

  std::vector<std::string> heard;
  std::size_t forgotten = 0;

 private:
  side(std::uint16_t port, bool shares, base::random_source random)
      : core_(test::loopback_domain(port)) {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_MSG;
    fid_cq* queue = nullptr;
    fid_ep* receives = nullptr;
    EXPECT_EQ(fi_cq_open(core_->domain(), &attr, &queue, nullptr), 0);
    EXPECT_EQ(fi_srx_context(core_->domain(), core_->info().rx_attr, &receives, nullptr), 0);
    queue_.reset(queue);
    receives_.reset(receives);
    manager.emplace(*core_,
                    connection_config{.eager_limit = 4096,
                                      .rx_buffers = 64,
                                      .kernel = shares ? &ipc::host_kernel::real() : nullptr,
                                      .takes_dmabufs = false,
                                      .random = random},
                    static_cast<connection_observer&>(*this));
    EXPECT_TRUE(manager->listen(queue, receives));
  }

  std::uint32_t number_of(const net_address&) override { return 0; }
  void forget_number_of(const net_address&) noexcept override { ++forgotten; }
  void connection_opened(connection&) override {
    EXPECT_EQ(fi_recv(receives_.get(), &packet_, sizeof packet_, nullptr, FI_ADDR_UNSPEC, nullptr),
              0);
  }
  void connection_up(connection& c) override {
    heard.emplace_back("up");
    if (!c.handshake.requested_here) return;
    const wire::header head{wire::kind::credit, 0, 0, 0, c.terms.connection_id};
    EXPECT_EQ(fi_inject(c.ep.get(), &head, sizeof head, 0), 0);
  }
  void connections_ending() override { heard.emplace_back("ending"); }
  void connection_down(connection&, int) override { heard.emplace_back("down"); }

  void take_packets() {
    fi_cq_msg_entry entry{};
    while (fi_cq_read(queue_.get(), &entry, 1) == 1)
      if (connection* const c = manager->find(packet_.connection)) manager->confirm_connected(*c);
  }

  std::unique_ptr<core::inner_domain> core_;
  wire::header packet_{};  // that came last
  core::unique_fid<fid_cq> queue_;
  core::unique_fid<fid_ep> receives_;

 public:
  std::optional<connection_manager> manager;  // ends first
};

net_address net_address_with(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1, which is nobody's
  name.sin_port = htons(port);
  return {&name, sizeof name};
}

void connect(side& from, side& to) {
  peer& p = from.manager->peers().named(to.manager->name());
  const auto heard = to.heard.size();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!from.manager->get_connection(p) || to.heard.size() == heard) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    from.poll();
    to.poll();
  }
}

// The end of the old connection and the request for the next are there together: what the old one
// brought is taken before it ends.
TEST(connection_manager, ends_a_connection_in_order_before_it_makes_the_next) {
  side b;
  auto first = std::make_unique<side>();
  const std::uint16_t port = first->manager->name().port();
  connect(*first, b);
  first.reset();
  side second(port);
  peer& p = second.manager->peers().named(b.manager->name());
  const auto completion = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < completion) {
    static_cast<void>(second.manager->get_connection(p));
    second.manager->poll_now();
    b.look();
  }
  connect(second, b);
  EXPECT_EQ(b.heard, (std::vector<std::string>{"up", "ending", "down", "up"}));
}

class unread_request : public testing::TestWithParam<int> {};

// It would wait for ever.
TEST_P(unread_request, is_refused_by_an_end) {
  side a;
  auto b = std::make_unique<side>();
  peer& p = a.manager->peers().named(b->manager->name());
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(a.manager->get_connection(p).code(), -FI_EAGAIN);
    a.manager->poll_now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int looks = 0; looks < GetParam(); ++looks) b->look();
  b.reset();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int code = -FI_EAGAIN;
  while ((code = a.manager->get_connection(p).code()) == -FI_EAGAIN) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    a.manager->poll_now();
  }
  EXPECT_NE(code, 0);
}

// That the core has not seen, has accepted, has read.
INSTANTIATE_TEST_SUITE_P(looks, unread_request, testing::Values(0, 1, 5));

// Anybody can ask under as many names as there are ports.
TEST(connection_manager, forgets_names_that_nothing_is_known_of) {
  side a;
  side b;
  connect(a, b);
  peer& known = a.manager->peers().named(net_address_with(1));
  known.address = 0;
  for (std::uint16_t port = 2; port < 20'000; ++port)
    a.manager->peers().named(net_address_with(port));
  EXPECT_LT(a.manager->peers().all().size(), 3000U);
  EXPECT_EQ(a.forgotten + a.manager->peers().all().size(), 20'000U);
  EXPECT_EQ(&a.manager->peers().named(net_address_with(1)), &known) << "the application's";
  EXPECT_TRUE(a.manager->get_connection(a.manager->peers().named(b.manager->name())))
      << "a connected one";
}

// What a peer sends waits in its socket, so others take nothing of its window.
TEST(connection_manager, gives_each_peer_over_a_stream_the_same_window) {
  side b;
  std::vector<std::unique_ptr<side>> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(std::make_unique<side>());
    connect(*peers.back(), b);
  }
  b.manager->for_each([](const connection& c) { EXPECT_EQ(c.data.granted(), 32U); });
}

struct deaf final : connection_observer {
  std::uint32_t number_of(const net_address&) override { return 0; }
  void forget_number_of(const net_address&) noexcept override {}
  void connection_opened(connection&) override {}
  void connection_up(connection&) override {}
  void connections_ending() override {}
  void connection_down(connection&, int) override {}
};

net_address in_ipv6(const char* host, std::uint32_t scope) {
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(4711);
  name.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, host, &name.sin6_addr), 1);
  return net_address(&name, sizeof name);
}

// The number of an interface is its host's own: a peer's greeting has none, and its name, as it was
// exchanged, the peer's.
TEST(connection_manager, knows_a_link_local_peer_whatever_number_its_interface_has) {
  const auto core = test::loopback_domain();
  const net_address own = in_ipv6("fe80::1", 7);
  fi_info& info = core->info();
  std::free(std::exchange(info.src_addr, std::malloc(own.length())));
  std::memcpy(info.src_addr, own.raw(), own.length());
  info.src_addrlen = own.length();
  deaf observer;
  connection_manager here(*core, {}, observer);
  const peer& known = here.peers().named(in_ipv6("fe80::2", 7));
  EXPECT_EQ(&here.peers().named(in_ipv6("fe80::2", 0)), &known);
  EXPECT_EQ(&here.peers().named(in_ipv6("fe80::2", 3)), &known);
  EXPECT_EQ(known.name.scope(), 7U);
  EXPECT_NE(&here.peers().named(in_ipv6("fe80::3", 0)), &known);
  EXPECT_EQ(here.peers().named(in_ipv6("2001:db8::2", 0)).name, in_ipv6("2001:db8::2", 0));
}

/// Numbers that no other process on this machine draws at this time.
class counting_source final : public base::random_source::source {
 public:
  std::uint64_t next() noexcept override { return ++next_; }

 private:
  std::uint64_t next_ = (static_cast<std::uint64_t>(::getpid()) << 32) | 0xc0'0000;
};

/// In a process of another user: fills the queue of connections at that instance's socket, says so,
/// and exits with 0 if they are all closed by the time that it is asked.
class crowd {
 public:
  explicit crowd(std::uint64_t instance) {
    EXPECT_EQ(::pipe(full_.data()), 0);
    EXPECT_EQ(::pipe(ask_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) ::_exit(run(instance));
    char byte = 0;
    EXPECT_EQ(::read(full_[0], &byte, 1), 1);
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd() {
    for (const int fd : {full_[0], full_[1], ask_[0], ask_[1]}) ::close(fd);
  }
  int status() {
    EXPECT_EQ(::write(ask_[1], "?", 1), 1);
    int status = -1;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int run(std::uint64_t instance) const {
    const rlimit many{8192, 8192};
    if (::setrlimit(RLIMIT_NOFILE, &many) != 0 || ::setuid(4242) != 0) return 2;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int text = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gaudi-fi-%016lx",
                                   static_cast<unsigned long>(instance));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                               static_cast<std::size_t>(text));
    std::vector<int> in;
    for (;;) {
      const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
      if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&name), length) != 0) break;
      in.push_back(fd);
    }
    char byte = 0;
    if (::write(full_[1], "f", 1) != 1 || ::read(ask_[0], &byte, 1) != 1) return 3;
    for (const int fd : in)
      if (::recv(fd, &byte, 1, 0) != 0) return 1;
    return in.empty() ? 4 : 0;
  }

  std::array<int, 2> full_{};
  std::array<int, 2> ask_{};
  pid_t child_ = -1;
};

// Nobody of this user asks for anything, so nothing but the poll looks at that socket.
TEST(connection_manager, turns_other_users_away_at_each_poll) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  counting_source numbers;
  const std::uint64_t instance = counting_source().next();
  side here{base::random_source(numbers)};
  const ipc::fd_handshake_id to{
      .to_instance = instance, .from_instance = 1, .to_connection = 1, .from_connection = 1};
  ASSERT_TRUE(ipc::send_fd(to, STDIN_FILENO)) << "the socket has the instance's name";
  crowd others(instance);
  EXPECT_EQ(ipc::send_fd(to, STDIN_FILENO).code(), -FI_EAGAIN) << "the queue is full";
  here.manager->poll_now();
  EXPECT_TRUE(ipc::send_fd(to, STDIN_FILENO));
  EXPECT_EQ(others.status(), 0) << "of all connections the other end is closed";
}

}  // namespace
}  // namespace gaudi::proto
