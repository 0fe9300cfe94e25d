// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What others see of endpoints that wait for something.
#include "proto/outstanding_report.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/params.hpp"
#include "cut_tcp.hpp"
#include "device_under_load.hpp"
#include "endpoint_node.hpp"
#include "proto/operation/buffer_pool.hpp"

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
    if (r.kind != kind || r.since == 0) continue;
    const auto& name = *reinterpret_cast<const sockaddr_in*>(all[r.endpoint].address.data());
    if (name.sin_port == own.sin_port) found.push_back(r);
  }
  return found;
}

bool shows(const node& of, record_kind kind, wait_reason why) {
  const auto all = records_of(kind, of);
  return std::any_of(all.begin(), all.end(), [&](const record& r) { return r.wait == why; });
}

std::uint64_t nanoseconds_of(std::chrono::nanoseconds span) {
  return static_cast<std::uint64_t>(span.count());
}

/// Of whatever endpoint, also of one that is not there any more.
std::size_t all_shown(record_kind kind) {
  std::vector<record> all(outstanding::record_count);
  const std::size_t size = all.size() * sizeof(record);
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [kind](const record& r) { return r.kind == kind && r.since != 0; }));
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

// As long as that the kernels have no room for all of it.
TEST(outstanding_report_of_rma, shows_what_the_core_has) {
  constexpr std::size_t longer_than_sockets = 32 << 20;
  pair_of_nodes both;
  std::vector<std::byte> from(longer_than_sockets);
  std::vector<std::byte> to(longer_than_sockets);
  reg::region region;
  both.b.expose(region, to);
  const auto endpoint_counts = [&] {
    return records_of(record_kind::endpoint, both.a)[0].counts[outstanding::operations];
  };
  ASSERT_EQ(endpoint_counts(), 0U);
  ASSERT_EQ(both.a.ep->write(memory_of(from.data(), from.size()),
                             {.target = both.to_b,
                              .address = region.address,
                              .key = region.key,
                              .completion = both.a.completion(&from)}),
            0);
  ASSERT_TRUE(progress_until(
      {&both.a}, [&] { return shows(both.a, record_kind::operation, wait_reason::network); }));
  const record shown = records_of(record_kind::operation, both.a)[0];
  EXPECT_EQ(shown.type, static_cast<std::uint8_t>(outstanding::operation_kind::write));
  EXPECT_EQ(shown.path, outstanding::path_kind::direct);
  EXPECT_EQ(shown.total, longer_than_sockets);
  EXPECT_EQ(shown.device, -1);
  EXPECT_EQ(shown.instance, records_of(record_kind::endpoint, both.b)[0].instance);
  EXPECT_EQ(endpoint_counts(), 1U);
  ASSERT_TRUE(progress_until({&both.a, &both.b}, [&] { return !both.a.queue.empty(); }));
  EXPECT_EQ(both.a.take().error, 0);
  EXPECT_TRUE(records_of(record_kind::operation, both.a).empty()) << "it goes with its operation";
}

std::size_t taken_for_operations() {
  std::vector<record> all(outstanding::record_count);
  const std::size_t size = all.size() * sizeof(record);
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [](const record& r) { return r.kind == record_kind::operation; }));
}

TEST(endpoint_outstanding_report, keeps_records_for_the_next_operations_until_none_is_left) {
  pair_of_nodes both;
  const std::size_t before = taken_for_operations();
  for (int round = 0; round < 3; ++round) {
    both.a.take();
    both.b.take();
    ASSERT_EQ(both.a.send(both.to_b, memory_of(both.out.data(), long_message), 5, nullptr), 0);
    const auto shown = records_of(record_kind::operation, both.a);
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].total, long_message);
    EXPECT_EQ(shown[0].done, 0U) << "what the last one left is gone";
    EXPECT_LE(taken_for_operations(), before + 2) << "one for each end";
    ASSERT_EQ(both.b.receive(memory_of(both.in.data(), long_message), 5, nullptr), 0);
    ASSERT_TRUE(progress_until({&both.a, &both.b},
                               [&] { return !both.a.queue.empty() && !both.b.queue.empty(); }));
    EXPECT_TRUE(records_of(record_kind::operation, both.a).empty());
  }
  EXPECT_TRUE(progress_until({&both.a, &both.b}, [&] { return taken_for_operations() == before; }))
      << "others can have them";
}

TEST(endpoint_outstanding_report, tells_when_the_peer_was_last_heard) {
  pair_of_nodes both;
  const fi_addr_t to_a = both.b.meet(both.a);
  ASSERT_EQ(both.b.send(to_a, memory_of(both.out.data(), long_message), 5, nullptr), 0);
  const auto heard = [&] { return records_of(record_kind::operation, both.b)[0].seen; };
  ASSERT_TRUE(progress_until({&both.a, &both.b}, [&] { return heard() != 0; }));
  EXPECT_LE(heard(), nanoseconds(base::clock().now()));
}

TEST(endpoint_outstanding_report, shows_a_connection_without_credit_until_some_come) {
  pair_of_nodes both;
  std::byte one{};
  while (both.a.send(both.to_b, memory_of(&one, 1), 6, nullptr) == 0) {
  }
  const auto waits = [&] { return shows(both.a, record_kind::connection, wait_reason::credit); };
  ASSERT_TRUE(progress_until({&both.a}, waits));
  const record shown = records_of(record_kind::connection, both.a)[0];
  EXPECT_EQ(shown.counts[outstanding::data_credits], 0U);
  EXPECT_EQ(shown.type, static_cast<std::uint8_t>(outstanding::connection_phase::connected));
  EXPECT_TRUE(progress_until({&both.a, &both.b}, [&] { return !waits(); }));
}

TEST(endpoint_outstanding_report, shows_a_connection_that_is_being_made) {
  auto config = small_settings();
  config.limits.connect_timeout = std::chrono::minutes(7);
  live_node a(config);
  live_node b;
  std::byte one{};
  ASSERT_EQ(a.send(a.meet(b), memory_of(&one, 1), 1, nullptr), 0);
  // A report may come before the message is counted.
  EXPECT_TRUE(progress_until({&a}, [&] {
    return shows(a, record_kind::connection, wait_reason::handshake) &&
           records_of(record_kind::connection, a)[0].counts[outstanding::queued_packets] == 1;
  }));
  const record shown = records_of(record_kind::connection, a)[0];
  EXPECT_EQ(records_of(record_kind::endpoint, a)[0].counts[outstanding::waiting_connections], 1U);
  EXPECT_EQ(shown.type, static_cast<std::uint8_t>(outstanding::connection_phase::connecting));
  EXPECT_EQ(shown.total - shown.since, nanoseconds_of(config.limits.connect_timeout));
  const auto& peer = *reinterpret_cast<const sockaddr_in*>(shown.address.data());
  EXPECT_EQ(peer.sin_port, reinterpret_cast<const sockaddr_in*>(b.ep->name().raw())->sin_port);
  const std::size_t before = all_shown(record_kind::connection);
  a.ep->shut_down();
  EXPECT_EQ(all_shown(record_kind::connection), before - 1);
}

TEST(endpoint_outstanding_report, shows_no_end_of_what_has_no_limit) {
  auto config = small_settings();
  config.limits.connect_timeout = std::chrono::seconds(0);
  live_node a(config);
  live_node b;
  std::byte one{};
  ASSERT_EQ(a.send(a.meet(b), memory_of(&one, 1), 1, nullptr), 0);
  ASSERT_TRUE(progress_until(
      {&a}, [&] { return shows(a, record_kind::connection, wait_reason::handshake); }));
  EXPECT_EQ(records_of(record_kind::connection, a)[0].total, 0U);
}

// The other end is not progressed, so that it does not answer.
TEST(endpoint_outstanding_report, tells_a_connection_that_was_lost_from_one_that_is_being_made) {
  node a{with_sessions()};
  node b{with_sessions()};
  ASSERT_TRUE(a.ep->enable());
  ASSERT_TRUE(b.ep->enable());
  std::byte one{};
  ASSERT_EQ(b.receive(memory_of(&one, 1), 1, nullptr), 0);
  const fi_addr_t to_b = a.meet(b);
  ASSERT_EQ(a.send(to_b, memory_of(&one, 1), 1, nullptr), 0);
  ASSERT_TRUE(progress_until({&a, &b}, [&] {
    return !b.queue.empty() && records_of(record_kind::connection, a).empty();
  }));
  const auto before = base::clock().now();
  ASSERT_NE(cut_tcp(a, b), 0U);
  ASSERT_TRUE(progress_until(
      {&a}, [&] { return shows(a, record_kind::connection, wait_reason::reconnection); }));
  const record shown = records_of(record_kind::connection, a)[0];
  EXPECT_GE(shown.type, static_cast<std::uint8_t>(outstanding::connection_phase::interrupted));
  EXPECT_GE(shown.since, nanoseconds(before));
  EXPECT_EQ(shown.total - shown.since, nanoseconds_of(with_sessions().limits.reconnect_timeout));
  EXPECT_NE(shown.done, 0U) << "what ended it";
  EXPECT_NE(shown.counts[outstanding::data_credits], 0U) << "the session keeps them";
  EXPECT_NE(shown.counts[outstanding::control_credits], 0U);
  // Attempts that fail are no losses of their own.
  for (int i = 0; i < 5; ++i) {
    cut_tcp(a, b);
    const std::uint64_t cut_at = nanoseconds(base::clock().now());
    const auto is_written = [&] { return records_of(record_kind::endpoint, a)[0].seen > cut_at; };
    ASSERT_TRUE(progress_until({&a}, is_written));
    EXPECT_EQ(records_of(record_kind::connection, a)[0].since, shown.since);
  }
  EXPECT_TRUE(progress_until({&a, &b}, [&] {
    return records_of(record_kind::connection, a).empty();
  })) << "it goes on";
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

class outstanding_report_of_a_device : public device_under_load {};

TEST_F(outstanding_report_of_a_device, names_the_engine_that_others_have_filled) {
  const fi_addr_t to = a_.meet(b_);
  pass(a_, to, b_, 10, 1);
  fill();
  std::vector<std::byte> bytes(long_message);
  ASSERT_EQ(b_.receive(on_device(long_message), 2, nullptr), 0);
  ASSERT_EQ(a_.send(to, memory_of(bytes.data(), long_message), 2, nullptr), 0);
  EXPECT_TRUE(progress_until(
      {&a_, &b_}, [&] { return shows(b_, record_kind::operation, wait_reason::device_copy); }));
  const auto shown = records_of(record_kind::operation, b_);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].device, 0);
  empty();
  EXPECT_TRUE(progress_until({&a_, &b_}, [&] { return !b_.queue.empty(); }));
}

TEST_F(outstanding_report_of_a_device, tells_when_a_device_was_lost) {
  const auto shown = [&] { return records_of(record_kind::endpoint, a_)[0]; };
  ASSERT_EQ(shown().done, 0U);
  const std::uint64_t before = nanoseconds(base::clock().now());
  gaudi_->lose(-FI_EIO, "of the test");
  ASSERT_TRUE(progress_until({&a_}, [&] { return shown().done != 0; }));
  EXPECT_GE(shown().done, before);
  EXPECT_NE(shown().total, 0U);
}

// What a connection waits for, of all that it may lack at the same time.
class connection_wait : public testing::Test {
 protected:
  void SetUp() override {
    c.data.start(1, 1);
    c.control.start(1, 1);
    ASSERT_EQ(wait_of(c), wait_reason::nothing);
  }
  buffer& take() {
    buffer* const taken = pool.acquire();
    EXPECT_NE(taken, nullptr);
    return *taken;
  }

  std::unique_ptr<core::inner_domain> core = loopback_domain();
  buffer_pool pool{*core, posted_op::kind::message, 64, 4, 4};
  peer other;
  connection c{other, connection_state::connected};
};

TEST_F(connection_wait, is_for_credit_where_there_is_none) {
  c.data.sent();
  EXPECT_EQ(wait_of(c), wait_reason::credit);
  c.state = connection_state::closing;
  EXPECT_EQ(wait_of(c), wait_reason::credit) << "what has begun goes on";
}

TEST_F(connection_wait, is_for_the_application_that_keeps_the_peers_credits) {
  c.data.sent();
  c.receives.withheld = 1;
  EXPECT_EQ(wait_of(c), wait_reason::application) << "which the peer waits for as well";
  c.receives.withheld = 0;
  c.receives.withheld_events = 1;
  EXPECT_EQ(wait_of(c), wait_reason::application);
}

TEST_F(connection_wait, is_for_memory_before_all_else) {
  buffer& packet = take();
  c.postponed.push_back(packet);
  c.receives.withheld = 1;
  EXPECT_EQ(wait_of(c), wait_reason::memory);
  c.postponed.clear();
}

TEST_F(connection_wait, is_for_what_the_first_queued_message_lacks) {
  buffer& message = take();
  c.outbox.ordered.push_back(message);
  message.ready = false;
  EXPECT_EQ(wait_of(c), wait_reason::device_copy) << "its payload comes from a device";
  message.ready = true;
  EXPECT_EQ(wait_of(c), wait_reason::room);
  c.outbox.ordered.clear();
}

TEST_F(connection_wait, is_for_what_the_first_control_message_lacks) {
  buffer& message = take();
  c.outbox.control_buffers.push_back(message);
  message.ready = false;
  EXPECT_EQ(wait_of(c), wait_reason::device_copy);
  message.ready = true;
  EXPECT_EQ(wait_of(c), wait_reason::room);
  c.control.sent();
  EXPECT_EQ(wait_of(c), wait_reason::credit);
  c.outbox.control_buffers.clear();
}

TEST_F(connection_wait, is_for_the_connection_as_long_as_there_is_none) {
  c.receives.withheld = 1;
  using enum connection_state;
  for (const auto s : {connecting, accepting}) {
    c.state = s;
    EXPECT_EQ(wait_of(c), wait_reason::handshake);
  }
  for (const auto s : {interrupted, reconnecting, reaccepting, resuming}) {
    c.state = s;
    EXPECT_EQ(wait_of(c), wait_reason::reconnection);
  }
  c.state = failed;
  EXPECT_EQ(wait_of(c), wait_reason::nothing) << "it goes";
}

TEST(connection_states, are_those_of_one_that_is_made_or_waits_or_is_of_use) {
  using enum connection_state;
  peer other;
  const auto all_that = [&](bool (connection::*are_so)() const noexcept) {
    std::vector<connection_state> found;
    for (int s = 0; s <= static_cast<int>(closing); ++s) {
      const connection c(other, static_cast<connection_state>(s));
      if ((c.*are_so)()) found.push_back(c.state);
    }
    return found;
  };
  using states = std::vector<connection_state>;
  EXPECT_EQ(all_that(&connection::is_being_made), (states{connecting, accepting}));
  EXPECT_EQ(all_that(&connection::is_interrupted),
            (states{interrupted, reconnecting, reaccepting, resuming}));
  EXPECT_EQ(all_that(&connection::usable), (states{connected, closing}));
  EXPECT_EQ(all_that(&connection::goes_on),
            (states{interrupted, reconnecting, reaccepting, resuming, connected, closing}));
}

TEST(connection_phase, has_a_number_for_each_state_that_stays_as_it_is) {
  using enum connection_state;
  const std::pair<connection_state, int> numbers[] = {
      {connecting, 0},  {accepting, 1},    {failed, 2},      {connected, 3}, {closing, 4},
      {interrupted, 5}, {reconnecting, 6}, {reaccepting, 7}, {resuming, 8}};
  for (const auto& [state, number] : numbers)
    EXPECT_EQ(static_cast<int>(phase_of(state)), number) << static_cast<int>(state);
}

}  // namespace
}  // namespace gaudi::proto::test
