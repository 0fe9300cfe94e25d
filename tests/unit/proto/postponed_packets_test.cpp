// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages that come while there is no memory for them wait, and are then taken once each.
#include "../base/scarce_memory.hpp"
#include "hostile_peer.hpp"
#include "peer_by_hand.hpp"
#include "sim/audit.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;

TEST(postponed_packets, are_counted_once_however_often_they_are_looked_at) {
  test::victim v;
  test::raw_client client;
  const hello ours = test::greeting(50021);
  hello theirs{};
  ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  ASSERT_TRUE(v.addresses.add(address_of(ours)));
  const auto credits = [&] { return endpoint_audit::credits_for_data(*v.ep, theirs.connection); };
  const std::uint32_t before = credits();

  // All that the peer may send, and each brings back a credit.
  std::vector<std::byte> packet(1000);
  const wire::header head{wire::kind::eager, 0, 1, 0, theirs.connection};
  std::memcpy(packet.data(), &head, sizeof head);
  for (unsigned i = 0; i < theirs.data_window; ++i) {
    while (!client.send(packet.data(), packet.size())) client.progress();
  }
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  while (credits() == before && std::chrono::steady_clock::now() < give_up) {
    client.progress();
    const gaudi::test::scarce_memory none(0);
    for (int look = 0; look < 3; ++look) v.ep->progress();
  }
  EXPECT_EQ(credits() - before, 1U) << "the first message is counted, and those behind it wait";
  EXPECT_EQ(endpoint_audit::unexpected_bytes(*v.ep), 0U);

  while (credits() - before < theirs.data_window && std::chrono::steady_clock::now() < give_up) {
    client.progress();
    v.ep->progress();
  }
  for (int i = 0; i < 100; ++i) v.ep->progress();
  EXPECT_EQ(credits() - before, theirs.data_window);
  EXPECT_EQ(endpoint_audit::connections(*v.ep), 1U)
      << "no message counts twice against its credits";
  EXPECT_GT(endpoint_audit::unexpected_bytes(*v.ep), 0U);
}

TEST(postponed_packets, go_with_a_peer_that_goes) {
  test::victim v;
  hello theirs{};
  const hello ours = test::greeting(50022);
  {
    test::raw_client client;
    ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
    ASSERT_TRUE(v.addresses.add(address_of(ours)));
    std::vector<std::byte> packet(1000);
    const wire::header head{wire::kind::eager, 0, 0, 0, theirs.connection};
    std::memcpy(packet.data(), &head, sizeof head);
    for (unsigned i = 0; i < 3; ++i) {
      while (!client.send(packet.data(), packet.size())) client.progress();
    }
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (endpoint_audit::postponed(*v.ep) != 3 && std::chrono::steady_clock::now() < give_up) {
      client.progress();
      const gaudi::test::scarce_memory none(0);
      v.ep->progress();
    }
    ASSERT_EQ(endpoint_audit::postponed(*v.ep), 3U);
  }
  const gaudi::test::scarce_memory none(0);
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  while (endpoint_audit::connections(*v.ep) != 0 && std::chrono::steady_clock::now() < give_up)
    v.ep->progress();
  EXPECT_EQ(endpoint_audit::connections(*v.ep), 0U);
  EXPECT_EQ(endpoint_audit::unexpected_bytes(*v.ep), 0U);
}

// A message that could go to its place at once waits as well.
TEST(postponed_packets, are_not_overtaken_through_shared_memory) {
  auto settings = test::small_settings();
  settings.kernel = &ipc::host_kernel::real();
  test::endpoint_by_itself v(settings);
  test::peer_by_hand peer(v, test::packet_way::ring);
  const auto say = [&](std::uint64_t tag) {
    wire::eager_fields message{};
    message.tag = tag;
    peer.say(wire::kind::eager, message, wire::eager_size(0), wire::tagged);
  };
  say(5);
  {
    const gaudi::test::scarce_memory none(0);
    v.progress();
  }
  ASSERT_EQ(endpoint_audit::postponed(*v.ep), 1U);
  std::byte place{};
  ASSERT_EQ(v.ep->receives().receive(
                local_memory::of_host(&place, 1),
                {.ignore = UINT64_MAX, .tagged = true, .completion = v.completion()}),
            0);
  say(6);
  peer.settle();
  EXPECT_EQ(v.take().tag, 5U);
}

// As after every other look there would be none for what came before it.
TEST(postponed_packets, are_taken_before_their_connection_ends_where_there_is_memory_again) {
  test::endpoint_by_itself v;
  test::peer_by_hand peer(v);
  ASSERT_TRUE(v.addresses.add(address_of(peer.said_of_itself())));
  std::vector<std::byte> packet(1000);
  const wire::header head{wire::kind::eager, 0, 0, 0, peer.known_as()};
  std::memcpy(packet.data(), &head, sizeof head);
  peer.say_as_it_is(packet.data(), packet.size());
  for (int i = 0; i < 20; ++i) v.net.advance(1'000'000);
  peer.close();
  for (int i = 0; i < 20; ++i) v.net.advance(1'000'000);
  std::optional<gaudi::test::scarce_memory> none;
  std::size_t waited = 0;
  v.clock.when_asked = [&] {
    waited = endpoint_audit::postponed(*v.ep);
    none.reset();
  };
  none.emplace(0);
  v.progress();
  EXPECT_EQ(waited, 1U) << "until the end was looked for";
  EXPECT_EQ(endpoint_audit::connections(*v.ep), 0U);
  EXPECT_GT(endpoint_audit::unexpected_bytes(*v.ep), 0U);
}

}  // namespace
}  // namespace gaudi::proto
