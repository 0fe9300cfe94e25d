// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer has sent before it closes arrives, whatever else comes at the same time: its sender
// was told that it is sent.
#include <string>

#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;

constexpr sim::nanoseconds one_step = 1'000'000;  // test::slow_network()

/// Two peers of an endpoint with few buffers, so that messages wait at the core until one is posted
/// again.
struct two_peers_by_hand {
  static endpoint::settings few_buffers() {
    auto s = test::small_settings();
    s.kernel = nullptr;
    s.rx_buffers = 16;
    return s;
  }
  void receive_any() {
    EXPECT_EQ(v.ep->receives().receive(
                  {}, {.ignore = UINT64_MAX, .tagged = true, .completion = v.completion()}),
              0);
  }
  /// A message of no bytes, which comes later than all that was said before by any peer.
  void say_message(std::uint64_t tag) {
    wire::eager_fields message{};
    message.tag = tag;
    leaving.say(wire::kind::eager, message, wire::eager_size(wire::tagged), wire::tagged);
    v.net.advance(1);
  }
  void say_malformed() {
    breaking.say(static_cast<wire::kind>(15), wire::fin_fields{});
    v.net.advance(1);
  }

  endpoint_by_itself v{few_buffers()};
  peer_by_hand breaking{v, packet_way::core, 1};
  peer_by_hand leaving{v, packet_way::core, 2};  // the second, which gets fewer buffers
};

// The endpoint ends one connection for a malformed packet, and the core gives its receives back as
// errors. Messages of the other one stand before these and behind them in the core's queue: those
// that waited for a buffer come as the messages before them are handled. One look at the queue ends
// at the first error.
void send_and_close(unsigned count) {
  two_peers_by_hand w;
  for (unsigned i = 0; i < count; ++i) w.receive_any();
  w.say_message(0);
  w.say_malformed();
  for (unsigned i = 1; i < count; ++i) w.say_message(i);
  w.v.net.advance(one_step);
  w.leaving.close();
  w.v.net.advance(2 * one_step);
  // Who wants to sleep looks at completions, and then at connections; progress looks at these only
  // now and then.
  static_cast<void>(w.v.ep->try_wait());
  w.breaking.settle();
  EXPECT_TRUE(w.breaking.is_cut_off());
  for (unsigned i = 0; i < count; ++i) {
    const cq_entry entry = w.v.take();
    EXPECT_EQ(entry.error, 0) << "message " << i;
    EXPECT_EQ(entry.tag, i);
  }
}

// With as many messages as there are buffers and two more, the last one comes with the end of its
// connection. How many buffers there are is the endpoint's affair.
TEST(connection_end, does_not_overtake_messages_behind_the_errors_of_another_connection) {
  const unsigned most = two_peers_by_hand().leaving.data_window();
  EXPECT_GE(most, 8U);
  for (unsigned count = 2; count <= most; ++count) {
    SCOPED_TRACE(std::to_string(count) + " messages");
    send_and_close(count);
  }
}

}  // namespace
}  // namespace gaudi::proto
