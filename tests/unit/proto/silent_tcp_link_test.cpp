// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The real tcp core over two addresses of this host, where the kernel drops what comes by one.
#include <gtest/gtest.h>
#include <linux/filter.h>

#include <chrono>
#include <vector>

#include "core/tcp_streams.hpp"
#include "cut_tcp.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto::test {
namespace {

using namespace std::chrono_literals;

/// With a second address, and what the kernel knows.
struct attentive_node {
  static endpoint::settings settings(core::tcp_streams& streams) {
    sockaddr_in other{};
    other.sin_family = AF_INET;
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    auto s = with_sessions();
    s.limits.link_timeout = 40ms;
    s.rails = {.count = 2,
               .others = {{net_address(&other, sizeof other), nullptr, "other"}},
               .streams = &streams};
    return s;
  }

  core::tcp_streams streams;
  live_node at{settings(streams)};
};

// As a link that is down: all that comes to the connections of the two, at either end, is dropped
// before the kernel acknowledges it (socket(7), SO_ATTACH_FILTER).
unsigned silence(const node& a, const node& b) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop};
  unsigned silenced = 0;
  for (int fd = 3; fd < 1024; ++fd)
    if (is_connection_of(fd, {port_of(a), port_of(b)}) &&
        ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
      ++silenced;
  return silenced;
}

class silent_tcp_link : public testing::Test {
 protected:
  void SetUp() override {
    to_b = a.at.meet(b.at);
    exchange(1);
    // Each end knows the other's addresses, and has nothing more to say.
    const auto quiet = std::chrono::steady_clock::now() + 300ms;
    ASSERT_TRUE(
        progress_until({&a.at, &b.at}, [&] { return std::chrono::steady_clock::now() > quiet; }));
  }
  void exchange(std::uint64_t tag) {
    ASSERT_EQ(b.at.receive(memory_of(in.data(), in.size()), tag, nullptr), 0);
    ASSERT_EQ(
        post({&a.at, &b.at},
             [&] { return a.at.send(to_b, memory_of(out.data(), out.size()), tag, nullptr); }),
        0);
    EXPECT_EQ(wait(b.at, {&a.at, &b.at}).error, 0);
    EXPECT_EQ(wait(a.at, {&a.at, &b.at}).error, 0);
    EXPECT_EQ(in, out);
  }

  attentive_node a;
  attentive_node b;
  fi_addr_t to_b = 0;
  std::vector<std::byte> out = counting(100);
  std::vector<std::byte> in = std::vector<std::byte>(100);
};

TEST_F(silent_tcp_link, is_left_for_the_other_one) {
  ASSERT_EQ(silence(a.at, b.at), 2U);
  exchange(2);
  EXPECT_EQ(a.at.paths.again.elsewhere, 1U);
  EXPECT_EQ(b.at.paths.again.elsewhere, 1U);
}

}  // namespace
}  // namespace gaudi::proto::test
