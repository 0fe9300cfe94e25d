// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer can take of an endpoint: memory, time, and the place of another peer.
#include <chrono>

#include "hostile_peer.hpp"
#include "sim/audit.hpp"

namespace gaudi::proto {

namespace {

using namespace std::chrono_literals;
using test::greeting;
using test::raw_client;
using test::victim;

constexpr std::size_t limit_of_victim = 1 << 20;

template <class Done>
bool both_progress_until(victim& v, raw_client& client, Done&& done) {
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    v.ep->progress();
    client.progress();
  }
  return true;
}

TEST(hostile_limits, messages_beyond_the_credits_close_the_connection) {
  victim v;
  raw_client client;
  const hello ours = greeting(50001);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  std::vector<std::byte> packet(4000);
  const wire::header head{wire::kind::eager, 0, 0, 0, theirs.connection};
  std::memcpy(packet.data(), &head, sizeof head);
  int sent = 0;
  EXPECT_TRUE(both_progress_until(v, client, [&] {
    for (int i = 0; i < 8 && client.send(packet.data(), packet.size()); ++i) ++sent;
    return endpoint_audit::connections(*v.ep) == 0 || sent > 4096;
  }));
  EXPECT_EQ(endpoint_audit::connections(*v.ep), 0U) << sent << " messages of it were taken";
  EXPECT_LT(endpoint_audit::unexpected_bytes(*v.ep), 2 * limit_of_victim);
}

// Remote writes that are reported need no receive of the application's: only its reading of the
// reports limits them.
class reporting_writer : public testing::TestWithParam<wire::kind> {};

TEST_P(reporting_writer, stops_until_its_reports_are_read) {
  victim v;
  raw_client client;
  const hello ours = greeting(50002);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  client.listen(2048);
  wire::rma_fields write{};
  write.head = {wire::kind::write, wire::cq_data, 0, 0, theirs.connection};
  write.address = v.region.address;
  write.key = 77;
  wire::event_fields event{};
  event.head = {wire::kind::event, wire::cq_data, 0, 0, theirs.connection};
  std::uint32_t credits =
      GetParam() == wire::kind::event ? theirs.control_window : theirs.data_window;
  unsigned idle = 0;
  std::size_t heard = 0;
  const auto send_all = [&] {
    for (; credits != 0; --credits, idle = 0) {
      const bool gone = GetParam() == wire::kind::event ? client.send(&event, sizeof event)
                                                        : client.send(&write, sizeof write);
      if (!gone) break;
    }
    while (!client.received.empty()) {
      wire::header head{};
      std::memcpy(&head, client.received.front().data(), sizeof head);
      client.received.pop_front();
      credits += GetParam() == wire::kind::event ? head.control_credits : head.data_credits;
      if (++heard % 1024 == 0) client.listen(1024);
    }
    return ++idle > 2000 || v.queue.size() > 4 * limit_of_victim / sizeof(cq_entry);
  };
  ASSERT_TRUE(both_progress_until(v, client, send_all));
  const std::size_t most = limit_of_victim / sizeof(cq_entry) + theirs.data_window;
  EXPECT_LE(v.queue.size(), most) << "reports that nobody reads";
  EXPECT_FALSE(client.shut);
  // They go on when the application has read.
  while (!v.queue.empty()) v.queue.pop();
  idle = 0;
  ASSERT_TRUE(both_progress_until(v, client, [&] { return send_all() || v.queue.size() > 100; }));
  EXPECT_GT(v.queue.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(kinds, reporting_writer,
                         testing::Values(wire::kind::write, wire::kind::event));

// Packets that only return credits need none themselves.
TEST(hostile_limits, a_call_that_progresses_ends_however_much_there_is) {
  victim v;
  raw_client client;
  const hello ours = greeting(50003);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  ASSERT_TRUE(v.addresses.add(address_of(ours)));
  const auto credits = [&] { return endpoint_audit::credits_for_data(*v.ep, theirs.connection); };
  const std::uint32_t before = credits();
  const wire::header head{wire::kind::credit, 0, 1, 0, theirs.connection};
  constexpr unsigned many = 4000;
  unsigned sent = 0;
  for (unsigned tries = 0; sent < many && tries < 100 * many; ++tries) {
    if (client.send(&head, sizeof head)) ++sent;
    client.progress();
  }
  ASSERT_EQ(sent, many) << "the socket has no room for this test";
  v.ep->progress();
  EXPECT_LT(credits() - before, many / 2) << "all in one call";
  EXPECT_TRUE(both_progress_until(v, client, [&] { return credits() - before == many; }));
}

// The peer has lost the connection, and the core here was never told.
TEST(hostile_limits, a_second_request_of_a_peer_ends_its_first_connection) {
  victim v;
  raw_client first;
  hello ours = greeting(50004);
  hello theirs{};
  ASSERT_EQ(first.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  raw_client second;
  ++ours.connection;
  EXPECT_EQ(second.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  EXPECT_TRUE(both_progress_until(v, first, [&] { return first.shut; }));
}

TEST(hostile_limits, the_same_request_twice_is_one_too_many) {
  victim v;
  raw_client first;
  const hello ours = greeting(50005);
  hello theirs{};
  ASSERT_EQ(first.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  raw_client second;
  EXPECT_EQ(second.connect(v, &ours, sizeof ours, theirs), FI_ECONNREFUSED);
  EXPECT_FALSE(first.shut);
}

TEST(hostile_limits, nobody_takes_a_peers_place_from_another_host) {
  victim v;
  raw_client peer(1);
  hello ours = greeting(50006);
  hello theirs{};
  ASSERT_EQ(peer.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  raw_client impostor(2);
  ++ours.instance;
  EXPECT_EQ(impostor.connect(v, &ours, sizeof ours, theirs), FI_ECONNREFUSED);
  EXPECT_FALSE(peer.shut);
  // Who restarts where it was does.
  raw_client restarted(1);
  EXPECT_EQ(restarted.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
}

}  // namespace
}  // namespace gaudi::proto
