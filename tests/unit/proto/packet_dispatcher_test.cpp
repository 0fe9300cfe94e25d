// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets as they arrive, by the core or through shared memory: whose they are, and how many of
// them there may be.
#include "proto/packet_dispatcher.hpp"

#include <cstddef>
#include <vector>

#include "peer_by_hand.hpp"
#include "sim/audit.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;

class packets_that_arrive : public testing::TestWithParam<packet_way> {
 protected:
  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.unexpected_limit = 1;
    return s;
  }

  /// A message of no bytes, by the peer.
  void say_message(std::uint64_t tag) {
    wire::eager_fields message{};
    message.tag = tag;
    peer.say(wire::kind::eager, message, wire::eager_size(0), wire::tagged);
  }
  void receive_any() {
    EXPECT_EQ(v.ep->receives().receive(
                  {}, {.ignore = UINT64_MAX, .tagged = true, .completion = v.completion()}),
              0);
  }

  endpoint_by_itself v{settings()};
  peer_by_hand peer{v, GetParam()};
};

TEST_P(packets_that_arrive, are_delivered) {
  receive_any();
  say_message(5);
  peer.settle();
  EXPECT_EQ(v.take().tag, 5U);
  EXPECT_FALSE(peer.is_cut_off());
}

TEST_P(packets_that_arrive, have_no_tag_unless_they_say_so) {
  std::byte place{};
  EXPECT_EQ(
      v.ep->receives().receive(local_memory::of_host(&place, 1), {.completion = v.completion()}),
      0);
  wire::eager_fields message{};
  message.tag = 5;
  peer.say(wire::kind::eager, message, wire::eager_size(0));
  peer.settle();
  EXPECT_EQ(v.take().tag, 0U);
}

TEST_P(packets_that_arrive, in_anothers_name_are_not_delivered_and_end_the_connection) {
  peer_by_hand other(v, GetParam(), 2);
  receive_any();
  wire::eager_fields message{};
  message.head = {wire::kind::eager, wire::tagged, 0, 0, other.known_as()};
  peer.say_as_it_is(&message, wire::eager_size(wire::tagged));
  peer.settle();
  EXPECT_TRUE(v.queue.empty());
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_FALSE(other.is_cut_off());
  peer.close();
  peer.settle();
  EXPECT_EQ(endpoint_audit::leftover(*v.ep), "") << "its buffer is free again";
}

TEST_P(packets_that_arrive, of_no_kind_that_there_is_end_the_connection) {
  wire::fin_fields fields{};
  peer.say(static_cast<wire::kind>(15), fields);
  peer.settle();
  EXPECT_TRUE(peer.is_cut_off());
}

TEST(shared_memory, has_slots_for_two_transfers_at_once_each_way) {
  auto s = test::small_settings();
  s.kernel = &ipc::host_kernel::real();
  s.staging_depth = 5;
  endpoint_by_itself v(s);
  peer_by_hand peer(v, packet_way::ring);
  EXPECT_EQ(peer.channel().slots_in().size(), 2 * s.staging_depth * s.staging_chunk);
  EXPECT_EQ(peer.channel().slots_out().size(), 2 * s.staging_depth * s.staging_chunk);
}

// Long ones are read by the peer, where that can.
TEST(shared_memory, takes_all_messages_where_the_peer_cannot_read) {
  for (const packet_way way : {packet_way::ring, packet_way::ring_alone}) {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.max_by_ring = 100;
    endpoint_by_itself v(s);
    peer_by_hand peer(v, way);
    std::vector<std::byte> bytes(101);
    EXPECT_EQ(v.ep->send(test::memory_of(bytes.data(), bytes.size()),
                         {.to = peer.address(), .completion = v.completion()}),
              0);
    peer.settle();
    const bool is_alone = way == packet_way::ring_alone;
    EXPECT_EQ(peer.waiting(wire::kind::eager), is_alone ? 1U : 0U);
    EXPECT_EQ(peer.waiting(wire::kind::rts), is_alone ? 0U : 1U);
  }
}

// Of the messages that nobody wants the budget takes one; the credits of the others do not go back.
TEST_P(packets_that_arrive, are_as_many_as_the_peer_has_credits_for) {
  for (unsigned i = 0; i < peer.data_window(); ++i) say_message(i);
  peer.settle();
  EXPECT_FALSE(peer.is_cut_off());
  say_message(0);
  peer.settle();
  EXPECT_TRUE(peer.is_cut_off());
  // With what waited received, the one too many has left nothing either.
  while (endpoint_audit::unexpected_bytes(*v.ep) != 0) {
    receive_any();
    v.take();
  }
  EXPECT_EQ(endpoint_audit::leftover(*v.ep), "");
}

// They are consumed at once, but their credits do not go back to a peer that takes nothing.
TEST(shared_memory, takes_no_more_expected_messages_than_there_are_credits_for) {
  auto s = test::small_settings();
  s.kernel = &ipc::host_kernel::real();
  endpoint_by_itself v(s);
  peer_by_hand peer(v, packet_way::ring);
  std::byte place{};
  wire::eager_fields message{};
  constexpr int enough = 100'000;
  int said = 0;
  for (bool is_taken = true; is_taken && said < enough; ++said) {
    ASSERT_EQ(v.ep->receives().receive(local_memory::of_host(&place, 1),
                                       {.tagged = true, .completion = v.completion()}),
              0);
    peer.say(wire::kind::eager, message, wire::eager_size(0), wire::tagged);
    v.progress();
    is_taken = !v.queue.empty();
    if (is_taken) v.take();
  }
  ASSERT_LT(said, enough);
  peer.settle();
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_EQ(static_cast<unsigned>(said - 1), peer.data_window() + peer.data_credits());
}

TEST_P(packets_that_arrive, bring_credits_back_when_they_have_been_received) {
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < peer.data_window(); ++i) {
      receive_any();
      say_message(i);
    }
    peer.settle();
  }
  EXPECT_FALSE(peer.is_cut_off());
}

TEST_P(packets_that_arrive, may_give_up_credits) {
  wire::credit_fields given_up{};
  given_up.count = peer.data_window() - 1U;
  peer.say(wire::kind::credit_release, given_up);
  receive_any();
  say_message(5);
  peer.settle();
  EXPECT_FALSE(peer.is_cut_off());
  EXPECT_EQ(v.take().tag, 5U) << "one was left";
}

INSTANTIATE_TEST_SUITE_P(ways, packets_that_arrive,
                         testing::Values(packet_way::core, packet_way::ring), [](const auto& way) {
                           return way.param == packet_way::core ? "by_core" : "by_ring";
                         });

}  // namespace
}  // namespace gaudi::proto
