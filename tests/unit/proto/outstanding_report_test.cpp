// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What others see of endpoints that wait for something.
#include "proto/outstanding_report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "endpoint_node.hpp"

namespace gaudi::proto::test {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::record_kind;
using outstanding::wait_reason;

constexpr std::size_t long_message = 1 << 20;

std::vector<record> records_of(record_kind kind, const node& of) {
  std::vector<record> all(outstanding::record_count);
  const std::size_t size = all.size() * sizeof(record);
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  const sockaddr_in& own = *reinterpret_cast<const sockaddr_in*>(of.ep->name().raw());
  std::vector<record> found;
  for (const record& r : all) {
    if (r.kind != kind) continue;
    const auto& name = *reinterpret_cast<const sockaddr_in*>(all[r.endpoint].address.data());
    if (name.sin_port == own.sin_port) found.push_back(r);
  }
  return found;
}

bool shows(const node& of, record_kind kind, wait_reason why) {
  const auto all = records_of(kind, of);
  return std::any_of(all.begin(), all.end(), [&](const record& r) { return r.wait == why; });
}

struct pair_of_nodes {
  live_node a, b;
  fi_addr_t to_b = a.meet(b);
  std::vector<std::byte> out = std::vector<std::byte>(long_message);
  std::vector<std::byte> in = std::vector<std::byte>(long_message);

  pair_of_nodes() {
    std::byte one{};
    EXPECT_EQ(b.receive(memory_of(in.data(), in.size()), 1, nullptr), 0);
    EXPECT_EQ(a.send(to_b, memory_of(&one, 1), 1, nullptr), 0);
    EXPECT_TRUE(progress_until({&a, &b}, [&] { return !b.queue.empty() && !a.queue.empty(); }));
    a.take();
    b.take();
  }
};

TEST(endpoint_outstanding_report, shows_an_endpoint_while_it_is_enabled) {
  outstanding::page& page = outstanding::page::instance();
  ASSERT_NE(page.header(), nullptr);
  live_node n;
  const auto shown = records_of(record_kind::endpoint, n);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_NE(shown[0].instance, 0U);
  EXPECT_NE(shown[0].seen, 0U);
  n.ep->shut_down();
  EXPECT_TRUE(records_of(record_kind::endpoint, n).empty());
}

TEST(endpoint_outstanding_report, shows_a_message_that_no_receive_is_posted_for_at_once) {
  pair_of_nodes both;
  ASSERT_EQ(both.a.send(both.to_b, memory_of(both.out.data(), long_message), 5, nullptr), 0);
  const auto shown = records_of(record_kind::operation, both.a);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].type, static_cast<std::uint8_t>(outstanding::operation_kind::send));
  EXPECT_EQ(shown[0].wait, wait_reason::matching_receive);
  EXPECT_EQ(shown[0].total, long_message);
  EXPECT_EQ(shown[0].done, 0U);
  EXPECT_NE(shown[0].since, 0U);
  const auto peer = records_of(record_kind::endpoint, both.b);
  ASSERT_EQ(peer.size(), 1U);
  EXPECT_EQ(shown[0].instance, peer[0].instance) << "the peer is found by it";
  EXPECT_TRUE(progress_until({&both.b}, [&] {
    return records_of(record_kind::endpoint, both.b)[0].counts[outstanding::unexpected_messages] ==
           1;
  }));

  ASSERT_EQ(both.b.receive(memory_of(both.in.data(), long_message), 5, nullptr), 0);
  ASSERT_TRUE(progress_until({&both.a, &both.b}, [&] { return !both.a.queue.empty(); }));
  EXPECT_TRUE(records_of(record_kind::operation, both.a).empty()) << "it goes with its operation";
}

TEST(endpoint_outstanding_report, shows_a_connection_without_credit_until_some_come) {
  pair_of_nodes both;
  std::byte one{};
  while (both.a.send(both.to_b, memory_of(&one, 1), 6, nullptr) == 0) {
  }
  const auto waits = [&] { return shows(both.a, record_kind::connection, wait_reason::credit); };
  ASSERT_TRUE(progress_until({&both.a}, waits));
  EXPECT_EQ(records_of(record_kind::connection, both.a)[0].counts[outstanding::data_credits], 0U);
  EXPECT_TRUE(progress_until({&both.a, &both.b}, [&] { return !waits(); }));
}

TEST(endpoint_outstanding_report, shows_a_connection_that_is_being_made) {
  live_node a;
  live_node b;
  std::byte one{};
  ASSERT_EQ(a.send(a.meet(b), memory_of(&one, 1), 1, nullptr), 0);
  EXPECT_TRUE(progress_until(
      {&a}, [&] { return shows(a, record_kind::connection, wait_reason::handshake); }));
  EXPECT_EQ(records_of(record_kind::connection, a)[0].counts[outstanding::queued_packets], 1U);
}

TEST(endpoint_outstanding_report, counts_receives_that_no_message_matches) {
  live_node n;
  std::byte one{};
  ASSERT_EQ(n.receive(memory_of(&one, 1), 1, nullptr), 0);
  EXPECT_TRUE(progress_until({&n}, [&] {
    return records_of(record_kind::endpoint, n)[0].counts[outstanding::posted_receives] == 1;
  }));
}

TEST(endpoint_outstanding_report, tells_of_a_thread_that_sleeps_until_the_next_progress) {
  node n;
  ASSERT_TRUE(n.ep->enable({.waitable = true}));
  const auto is_asleep = [&] {
    return (records_of(record_kind::endpoint, n)[0].flags & outstanding::asleep) != 0;
  };
  EXPECT_FALSE(is_asleep());
  ASSERT_EQ(n.ep->try_wait(), 0);
  EXPECT_TRUE(is_asleep());
  n.ep->progress();
  EXPECT_FALSE(is_asleep());
}

}  // namespace
}  // namespace gaudi::proto::test
