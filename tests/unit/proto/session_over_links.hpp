// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "core/tcp_streams.hpp"
#include "proto/peer/link_listener.hpp"
#include "sim/core/objects.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto::test {

inline constexpr std::size_t routed_piece = 1024;

inline constexpr auto link_timeout = std::chrono::milliseconds(100);

/// The kernels' view of connections that carry nothing. An end can have nothing to send.
struct simulated_streams final : core::tcp_streams {
  std::chrono::milliseconds unacknowledged_for(fid_ep& ep) noexcept override {
    const auto& asked = static_cast<const sim::core_endpoint&>(ep);
    ++questions;
    const bool is_silent = asked.wire && asked.wire->is_silent;
    return std::chrono::milliseconds(is_silent && has_sent.at(asked.end) ? 1000 : 0);
  }
  unsigned questions = 0;
  std::array<bool, 2> has_sent{true, true};  // of who asked for the connection, and of the other
};

/// What an endpoint tells of its links.
struct told_changes final : link_listener {
  void link_changed(const link_change& change) noexcept override { all.push_back(change); }
  [[nodiscard]] std::vector<link_change::kind> kinds() const {
    std::vector<link_change::kind> found;
    for (const link_change& change : all) found.push_back(change.what);
    return found;
  }
  std::vector<link_change> all;
};

/// With an interface for each rail behind the first.
inline endpoint::settings over_links(unsigned host, unsigned others, core::tcp_streams& streams) {
  auto s = with_sessions();
  s.limits.link_timeout = link_timeout;
  s.rails = {.count = 1 + others,
             .chunk = routed_piece,
             .others = {},
             .pause = std::chrono::milliseconds(0),
             .streams = &streams};
  for (unsigned interface = 1; interface <= others; ++interface) {
    const sockaddr_in at = sim::address_of(host, interface, 0);
    s.rails.others.push_back({net_address(&at, sizeof at), nullptr, "other"});
  }
  return s;
}

/// Two hosts with two links, or as many as the fixture says, and an endpoint on each.
class session_over_links : public testing::Test {
 public:
  explicit session_over_links(unsigned others_of_b = 1)
      : a(net, net.add_host(0, 5000), over_links(0, 1, streams), {}, &told_by_a),
        b(net, net.add_host(1, 5001), over_links(1, others_of_b, streams), {}, &told_by_b) {}

 protected:
  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    exchange(16);
    let_it_go_on();
  }
  // Time does not pass while an endpoint closes.
  void TearDown() override {
    let_it_go_on();
    EXPECT_EQ(net.complaint(), "");
  }

  void let_it_go_on() {
    for (int i = 0; i < 40; ++i) {
      a.progress(std::chrono::milliseconds(10));
      b.progress(std::chrono::milliseconds(10));
      net.advance(1'000'000);
    }
  }
  cq_entry end_of(simulated_endpoint& of) {
    for (int i = 0; i < 100 && of.queue.empty(); ++i) let_it_go_on();
    return of.take();
  }
  // `has_sent`: which of its ends.
  void lose_a_silent_rail(std::array<bool, 2> has_sent) {
    exchange(64 * routed_piece);
    ASSERT_EQ(connections_over(1), 1U);
    for (const auto& wire : net.connections()) wire->is_silent = wire->interfaces[0] == 1;
    streams.has_sent = has_sent;
    exchange(64 * routed_piece);
    EXPECT_EQ(a.paths.rails.lost + b.paths.rails.lost, 1U);
    EXPECT_EQ(a.paths.connections.interrupted, 0U);
  }
  // From a to b.
  void exchange(std::size_t bytes) {
    const auto sent = counting(bytes, ++last_message);
    std::vector<std::byte> received(bytes);
    ASSERT_EQ(b.receive(memory_of(received.data(), bytes), last_message, nullptr), 0);
    auto copy = sent;
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      ret = a.send(to_b, memory_of(copy.data(), bytes), last_message, nullptr);
      let_it_go_on();
    }
    ASSERT_EQ(ret, 0);
    EXPECT_EQ(end_of(a).error, 0);
    EXPECT_EQ(end_of(b).error, 0);
    EXPECT_EQ(received, sent);
  }
  std::size_t connections_over(unsigned interface) {
    const auto& all = net.connections();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& wire) {
      return !wire->is_cut && wire->ends[0].is_up && wire->ends[1].is_up &&
             wire->interfaces[0] == interface;
    }));
  }

  sim::network net{slow_network(), sim::rng(1), nullptr};
  simulated_streams streams;
  told_changes told_by_a;
  told_changes told_by_b;
  simulated_endpoint a;
  simulated_endpoint b;
  fi_addr_t to_b = 0;
  unsigned last_message = 0;
};

}  // namespace gaudi::proto::test
