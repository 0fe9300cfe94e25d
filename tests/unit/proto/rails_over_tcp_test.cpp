// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The real tcp core, with rails over several addresses of this host that end again and again.
#include <algorithm>
#include <ostream>
#include <random>
#include <vector>

#include "cut_tcp.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::node;

constexpr std::size_t rail_piece = 4096;
constexpr std::size_t longest = 40 * rail_piece;

net_address loopback_alias(std::uint8_t last) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
  return net_address(&in, sizeof in);
}

/// How rails are made, and by what they carry.
struct rail_kind {
  base::rendezvous_choice way = base::rendezvous_choice::automatic;
  bool have_domains = false;  // one for each address

  friend std::ostream& operator<<(std::ostream& to, const rail_kind& k) {
    return to << (k.way == base::rendezvous_choice::write ? "write" : "automatic")
              << (k.have_domains ? "_with_domains" : "");
  }
};

endpoint::settings with_three_rails(const rail_kind& kind) {
  auto s = test::with_sessions();
  s.rails = {.count = 3, .chunk = rail_piece, .others = {}, .pause = std::chrono::milliseconds(0)};
  if (!kind.have_domains) s.rails.others = {{loopback_alias(2)}, {loopback_alias(3)}};
  s.rendezvous = kind.way;
  return s;
}

std::vector<net_address> nics_of(const rail_kind& kind) {
  if (!kind.have_domains) return {};
  return {loopback_alias(2), loopback_alias(3)};
}

// One of the process's tcp connections by those addresses, or any.
bool is_rail(int fd) {
  sockaddr_in end{};
  socklen_t length = sizeof end;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&end), &length) != 0) return false;
  length = sizeof end;
  const auto is_alias = [&] {
    const std::uint32_t host = ntohl(end.sin_addr.s_addr);
    return end.sin_family == AF_INET &&
           (host == INADDR_LOOPBACK + 1 || host == INADDR_LOOPBACK + 2);
  };
  if (is_alias()) return true;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&end), &length) == 0 && is_alias();
}

class rails_over_tcp : public testing::TestWithParam<rail_kind> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(a.ep->enable());
    ASSERT_TRUE(b.ep->enable());
    to_b = a.meet(b);
    to_a = b.meet(a);
    b.expose(region, target);
  }

  void progress() {
    a.ep->progress();
    b.ep->progress();
    for (node* n : {&a, &b})
      for (auto entry = n->take(); entry.error != FI_ENODATA; entry = n->take()) {
        EXPECT_EQ(entry.error, 0);
        ++done;
      }
  }

  template <class Call>
  void start(Call&& call) {
    int ret = -FI_EAGAIN;
    while ((ret = call()) == -FI_EAGAIN) progress();
    ASSERT_EQ(ret, 0);
    ++started;
  }

  void finish() {
    while (done < started && !HasFailure()) progress();
  }

  void send(bool there, std::vector<std::byte>& sent, std::vector<std::byte>& got,
            std::uint64_t tag) {
    node& from = there ? a : b;
    node& to = there ? b : a;
    start([&] { return to.receive(test::memory_of(got.data(), got.size()), tag, &got); });
    start([&] {
      return from.send(there ? to_b : to_a, test::memory_of(sent.data(), sent.size()), tag, &sent);
    });
  }

  void exchange(std::size_t length) {
    for (const bool there : {true, false}) {
      auto sent = some_bytes(length);
      std::vector<std::byte> got(length);
      send(there, sent, got, 1);
      finish();
      ASSERT_EQ(got, sent);
    }
  }

  // Until each end has its rails up.
  void have_rails(std::uint64_t count) {
    while ((a.paths.rails.made < count || b.paths.rails.made < count) && !HasFailure())
      exchange(longest);
  }

  std::vector<std::byte> some_bytes(std::size_t length) {
    std::vector<std::byte> bytes(length);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
    return bytes;
  }

  // Shuts one down, of all connections or of the rails beside them.
  unsigned cut(bool only_rails) {
    std::vector<int> all;
    for (int fd = 3; fd < 1024; ++fd)
      if (is_rail(fd) ||
          (!only_rails && test::is_connection_of(fd, {test::port_of(a), test::port_of(b)})))
        all.push_back(fd);
    if (all.empty()) return 0;
    return ::shutdown(all[random() % all.size()], SHUT_RDWR) == 0 ? 1 : 0;
  }

  node a{test::loopback_domain(), with_three_rails(GetParam()), 8, nics_of(GetParam())};
  node b{test::loopback_domain(), with_three_rails(GetParam()), 8, nics_of(GetParam())};
  fi_addr_t to_a = 0;
  fi_addr_t to_b = 0;
  std::vector<std::byte> target = std::vector<std::byte>(longest);
  reg::region region;
  std::mt19937 random{1};
  std::size_t started = 0;
  std::size_t done = 0;
};

// How much of it depends on what was measured of each: rail_scheduler_test.cpp.
TEST_P(rails_over_tcp, carry_parts_of_a_long_message) {
  have_rails(2);
  const auto before = a.paths.rails.bytes + b.paths.rails.bytes;
  exchange(longest);
  EXPECT_GT(a.paths.rails.bytes + b.paths.rails.bytes, before);
  EXPECT_EQ(a.paths.rails.lost + b.paths.rails.lost, 0U);
}

TEST_P(rails_over_tcp, leave_short_messages_to_the_connection) {
  have_rails(2);
  const auto before = a.paths.rails.ops + b.paths.rails.ops;
  exchange(2 * rail_piece - 1);
  EXPECT_EQ(a.paths.rails.ops + b.paths.rails.ops, before);
}

TEST_P(rails_over_tcp, carry_rma) {
  have_rails(2);
  const auto before = a.paths.rails.ops;
  auto written = some_bytes(longest);
  std::vector<std::byte> read(longest);
  start([&] {
    return a.ep->write(test::memory_of(written.data(), longest), {.target = to_b,
                                                                  .address = region.address,
                                                                  .key = region.key,
                                                                  .completion = a.completion(&a)});
  });
  finish();
  EXPECT_EQ(target, written);
  EXPECT_GT(a.paths.rails.ops, before);
  start([&] {
    return a.ep->read(test::memory_of(read.data(), longest), {.target = to_b,
                                                              .address = region.address,
                                                              .key = region.key,
                                                              .completion = a.completion(&a)});
  });
  finish();
  EXPECT_EQ(read, written);
  EXPECT_GT(a.paths.rails.ops, before);
}

TEST_P(rails_over_tcp, lose_nothing_when_they_are_lost) {
  have_rails(2);
  unsigned cuts = 0;
  for (std::uint64_t round = 0; round < 60 && !HasFailure(); ++round) {
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> got(6);
    for (std::size_t n = 0; n < got.size(); ++n) {
      sent.push_back(some_bytes(1 + random() % longest));
      got[n].resize(sent[n].size());
    }
    for (std::size_t n = 0; n < got.size(); ++n) {
      send(n % 2 == 0, sent[n], got[n], round * got.size() + n);
      for (unsigned steps = random() % 8; steps != 0; --steps) progress();
      cuts += cut(round % 2 == 0);
    }
    finish();
    for (std::size_t n = 0; n < got.size(); ++n)
      ASSERT_EQ(got[n], sent[n]) << "message " << n << " of round " << round;
  }
  EXPECT_GT(cuts, 60U);
  EXPECT_GT(a.paths.rails.lost + b.paths.rails.lost, 60U);
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    of_all_kinds, rails_over_tcp,
    testing::Values(rail_kind{}, rail_kind{.way = base::rendezvous_choice::write},
                    rail_kind{.have_domains = true},
                    rail_kind{.way = base::rendezvous_choice::write, .have_domains = true}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace gaudi::proto
