// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer has put into its ring of packets just before its connection ends.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "peer_by_hand.hpp"
#include "proto/channel/ring_watch.hpp"
#include "sim/audit.hpp"

namespace gaudi::proto::test {
namespace {

void say(peer_by_hand& who) {
  std::vector<std::byte> packet(1000);
  const wire::header head{wire::kind::eager, 0, 0, 0, who.known_as()};
  std::memcpy(packet.data(), &head, sizeof head);
  who.say_as_it_is(packet.data(), packet.size());
}

// Of many that say nothing only a few are looked at each time.
TEST(last_words, of_a_peer_that_was_quiet_are_heard_though_it_is_not_its_turn) {
  auto config = small_settings();
  config.kernel = &ipc::host_kernel::real();
  endpoint_by_itself v(config);
  std::vector<std::unique_ptr<peer_by_hand>> peers;
  for (unsigned number = 1; number <= 3 * ring_watch::quiet_at_once; ++number)
    peers.push_back(std::make_unique<peer_by_hand>(v, packet_way::ring, number));
  // Wherever it is among them.
  for (std::size_t gone = 0; gone < 2 * ring_watch::quiet_at_once; ++gone) {
    peer_by_hand& goes = *peers[peers.size() - gone - 1];
    ASSERT_TRUE(v.addresses.add(address_of(goes.said_of_itself())));
    for (unsigned i = 0; i < ring_watch::looks_until_quiet; ++i)
      v.progress(std::chrono::milliseconds(0));
    goes.close();
    for (int i = 0; i < 20; ++i) v.net.advance(1'000'000);
    // The time is asked for the looks at the rings, and then for those at the core's events.
    v.clock.when_asked = [&] { v.clock.when_asked = [&] { say(goes); }; };
    const std::size_t before = endpoint_audit::unexpected_bytes(*v.ep);
    v.progress();
    EXPECT_FALSE(v.clock.when_asked) << "it has spoken";
    EXPECT_EQ(endpoint_audit::connections(*v.ep), peers.size() - gone - 1);
    EXPECT_GT(endpoint_audit::unexpected_bytes(*v.ep), before) << gone;
  }
}

}  // namespace
}  // namespace gaudi::proto::test
