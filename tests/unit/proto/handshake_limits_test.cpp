// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whoever connects and then says nothing, or only half of it, and who is asked and does not answer.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <future>
#include <optional>
#include <vector>

#include "base/scoped_fd.hpp"
#include "core/tcp_listener.hpp"
#include "endpoint_node.hpp"
#include "hostile_peer.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::greeting;
using test::raw_client;
using test::victim;

/// A socket of the kernel's alone.
class bare_socket {
 public:
  bare_socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit bare_socket(int accepted) : fd_(accepted) {}

  net_address listen() const {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    socklen_t length = sizeof any;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&any), &length);
    return {&any, sizeof any};
  }
  [[nodiscard]] bare_socket accept() const {
    return bare_socket(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  void connect(const net_address& to) const {
    EXPECT_EQ(::connect(fd_.get(), to.raw(), static_cast<socklen_t>(to.length())), 0);
  }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  /// Whether the other end has closed.
  [[nodiscard]] bool ended() const {
    std::byte one{};
    const ssize_t got = ::recv(fd_.get(), &one, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  base::scoped_fd fd_;
};

/// While it lives the process may have 1,024 descriptors, of which `left` are free.
class descriptors_in_use {
 public:
  explicit descriptors_in_use(int left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = 1024;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    base::scoped_fd next;
    do {
      taken_.push_back(std::move(next));
      next = base::scoped_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (next && next.get() < 1024 - left);
  }
  descriptors_in_use(const descriptors_in_use&) = delete;
  descriptors_in_use& operator=(const descriptors_in_use&) = delete;
  ~descriptors_in_use() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<base::scoped_fd> taken_;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Until the core has closed what others ended: it frees nothing of what is left at its own end.
bool closes_down_to(victim& v, std::size_t descriptors) {
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (open_descriptors() > descriptors) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    v.ep->progress();
  }
  return true;
}

/// The first `length` bytes that the core's tcp provider sends with a request.
std::vector<std::byte> start_of_a_request(std::size_t length) {
  const bare_socket listener;
  const net_address name = listener.listen();
  raw_client client;
  const hello ours = greeting(1);
  fi_connect(client.ep.get(), name.raw(), &ours, sizeof ours);
  client.progress();
  const bare_socket accepted = listener.accept();
  std::vector<std::byte> bytes(length);
  std::size_t had = 0;
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (had < length && std::chrono::steady_clock::now() < give_up) {
    client.progress();
    const ssize_t got = ::recv(accepted.get(), &bytes[had], length - had, MSG_DONTWAIT);
    if (got > 0) had += static_cast<std::size_t>(got);
  }
  EXPECT_EQ(had, length);
  return bytes;
}

// The core has accepted it, and has not read what it asks for.
TEST(handshake_limits, who_has_asked_for_nothing_is_let_go_with_the_endpoint) {
  victim v;
  const std::size_t before = open_descriptors();
  const bare_socket talker;
  talker.connect(v.ep->name());
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (open_descriptors() < before + 2 && std::chrono::steady_clock::now() < give_up)
    v.ep->progress();
  v.ep->shut_down();
  pollfd end{.fd = talker.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&end, 1, 20'000), 1) << "it would wait until the process ends";
  std::byte none{};
  EXPECT_LE(::recv(talker.get(), &none, 1, MSG_DONTWAIT), 0);
}

// The core closes the sockets of those that it was told to let go only when it is looked at again.
TEST(handshake_limits, who_has_asked_for_nothing_costs_no_descriptor_once_the_endpoint_is_gone) {
  const auto after_a_life_with = [](std::size_t talkers) {
    std::vector<bare_socket> talking(talkers);
    std::optional<victim> v(std::in_place);
    const std::size_t before = open_descriptors();
    for (const bare_socket& talker : talking) talker.connect(v->ep->name());
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (open_descriptors() < before + talkers && std::chrono::steady_clock::now() < give_up)
      v->ep->progress();
    EXPECT_EQ(open_descriptors(), before + talkers) << "all are accepted";
    v.reset();
    talking.clear();
    return open_descriptors();
  };
  const std::size_t without = after_a_life_with(0);
  EXPECT_EQ(after_a_life_with(3), without);
}

// 32 bytes are the fixed part of the core's request (ofi_ctrl_hdr), 16 that of releases from 1.18
// on.
TEST(handshake_limits, half_a_request_stops_nobody) {
  victim v;
  const auto half = start_of_a_request(32);
  const std::size_t before = open_descriptors();
  std::optional<bare_socket> talking(std::in_place);
  const bare_socket& talker = *talking;
  talker.connect(v.ep->name());
  ASSERT_EQ(::send(talker.get(), half.data(), half.size(), 0), 32);
  // Where it does stop the victim, the end of the socket lets it go again.
  std::promise<void> served;
  auto is_served = served.get_future();
  std::thread watchdog([&] {
    if (is_served.wait_for(20s) != std::future_status::ready) ::shutdown(talker.get(), SHUT_RDWR);
  });
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    v.ep->progress();
    std::this_thread::sleep_for(100us);
  }
  const std::size_t without = open_descriptors();
  raw_client honest;
  const hello ours = greeting(50010);
  hello theirs{};
  EXPECT_EQ(honest.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  const std::size_t of_honest = open_descriptors() - without;
  served.set_value();
  watchdog.join();
  EXPECT_LT(std::chrono::steady_clock::now() - started, 20s) << "the watchdog had to end it";
  talking.reset();
  // From 1.18 on the core's tcp provider stops watching a socket before it reads the request (2.1:
  // xnet_run_conn() in prov/tcp/src/xnet_progress.c), and so keeps that of half a request until the
  // listener ends.
  if (fi_version() >= FI_VERSION(1, 18)) return;
  EXPECT_TRUE(closes_down_to(v, before + of_honest)) << "the core keeps the talker's socket";
}

TEST(handshake_limits, descriptors_are_scarce_where_an_eighth_is_left) {
  EXPECT_FALSE(core::descriptors_are_scarce());
  {
    const descriptors_in_use most(130);
    EXPECT_FALSE(core::descriptors_are_scarce());
  }
  {
    const descriptors_in_use more(127);
    EXPECT_TRUE(core::descriptors_are_scarce());
  }
  const descriptors_in_use all(0);
  EXPECT_TRUE(core::descriptors_are_scarce());
}

TEST(handshake_limits, connections_that_ask_for_nothing_are_closed_where_descriptors_are_scarce) {
  const descriptors_in_use most(127);
  victim v(1s);
  std::array<bare_socket, 20> silent;
  for (const bare_socket& s : silent) s.connect(v.ep->name());
  raw_client honest;
  const std::size_t without_accepted = open_descriptors();
  const hello ours = greeting(50011);
  hello theirs{};
  ASSERT_EQ(honest.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  const auto all_ended = [&] {
    return std::all_of(silent.begin(), silent.end(), [](const auto& s) { return s.ended(); });
  };
  while (!all_ended() && std::chrono::steady_clock::now() < give_up) {
    v.ep->progress();
    honest.progress();
    std::this_thread::sleep_for(1ms);  // the kernel measures a second of silence
  }
  EXPECT_TRUE(all_ended());
  EXPECT_TRUE(closes_down_to(v, without_accepted + 2)) << "the core keeps their sockets";
  EXPECT_FALSE(honest.shut) << "it has asked";
}

TEST(handshake_limits, connections_that_ask_for_nothing_stay_while_there_are_descriptors) {
  test::driven_clock time;
  victim v(1s, base::clock(time));
  const bare_socket silent;
  silent.connect(v.ep->name());
  v.ep->progress();
  std::this_thread::sleep_for(1100ms);  // longer than the kernel would have to have heard nothing
  for (int looks = 0; looks < 2; ++looks) {
    time.at += 2s;  // two looks, if there were any
    for (int i = 0; i < 100; ++i) v.ep->progress();
  }
  EXPECT_FALSE(silent.ended());
}

TEST(handshake_limits, a_peer_that_never_answers_is_given_up) {
  const bare_socket mute;
  const net_address name = mute.listen();
  test::driven_clock time;
  auto config = test::small_settings();
  config.limits.connect_timeout = 5s;
  config.clock = base::clock(time);
  test::live_node a(config);
  const fi_addr_t to = a.meet(name);
  char byte = 0;
  const auto send = [&] { return a.send(to, test::memory_of(&byte, 1), 1, nullptr); };
  EXPECT_EQ(send(), 0);
  time.at += 4s;
  a.ep->progress();
  EXPECT_EQ(send(), 0);
  EXPECT_TRUE(a.queue.empty()) << "it has a second left";
  time.at += 2s;
  a.ep->progress();
  for (int message = 0; message < 2; ++message) EXPECT_EQ(a.take().error, FI_ETIMEDOUT);
  EXPECT_EQ(send(), 0) << "another attempt";
  a.ep->progress();
  EXPECT_TRUE(a.queue.empty());
}

/// A listener of the core alone that refuses what it is asked for as if it were asking itself.
class refusing_listener {
 public:
  refusing_listener() : info_(test::loopback_info()) {
    fid_fabric* f = nullptr;
    fi_fabric(info_->fabric_attr, &f, nullptr);
    fabric_.reset(f);
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_NONE;
    fid_eq* e = nullptr;
    fi_eq_open(f, &attr, &e, nullptr);
    events_.reset(e);
    fid_pep* p = nullptr;
    fi_passive_ep(f, info_.get(), &p, nullptr);
    listener_.reset(p);
    fi_pep_bind(p, &e->fid, 0);
    fi_listen(p);
    sockaddr_in name{};
    std::size_t length = sizeof name;
    fi_getname(&p->fid, &name, &length);
    name_ = net_address(&name, length);
  }

  [[nodiscard]] const net_address& name() const { return name_; }

  void progress() {
    std::uint32_t event = 0;
    alignas(fi_eq_cm_entry) std::byte space[512];
    if (fi_eq_read(events_.get(), &event, space, sizeof space, 0) <= 0 || event != FI_CONNREQ)
      return;
    ++refused;
    const core::unique_info completion(reinterpret_cast<fi_eq_cm_entry*>(space)->info);
    hello h = greeting(2);
    h.reason = static_cast<std::uint8_t>(wire::reject_reason::simultaneous);
    fi_reject(listener_.get(), completion->handle, &h, sizeof h);
  }

  int refused = 0;

 private:
  core::unique_info info_;
  core::unique_fid<fid_fabric> fabric_;
  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_pep> listener_;
  net_address name_;
};

TEST(handshake_limits, a_refused_request_is_not_repeated_at_once) {
  refusing_listener peer;
  test::driven_clock time;
  auto config = test::small_settings();
  config.clock = base::clock(time);
  test::live_node a(config);
  const fi_addr_t to = a.meet(peer.name());
  char byte = 0;
  const auto ask_until = [&](int refused) {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (peer.refused < refused && std::chrono::steady_clock::now() < give_up) {
      a.ep->progress();
      peer.progress();
    }
  };
  EXPECT_EQ(a.send(to, test::memory_of(&byte, 1), 1, nullptr), 0);
  ask_until(1);
  for (int i = 0; i < 2000; ++i) {
    a.ep->progress();
    peer.progress();
  }
  EXPECT_EQ(peer.refused, 1) << "while no time passed";
  time.at += 1s;
  ask_until(2);
  EXPECT_EQ(peer.refused, 2);
}

}  // namespace
}  // namespace gaudi::proto
