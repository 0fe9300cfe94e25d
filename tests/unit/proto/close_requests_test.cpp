// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Towards a peer whose every answer the test makes: how often it is asked to agree to the end of a
// connection, and that its answer is not slept through.
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

using std::chrono::milliseconds;

class connection_not_needed : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = small_settings();
    s.kernel = nullptr;
    return s;
  }
  void SetUp() override { ASSERT_TRUE(v.addresses.remove(p.address())); }
  void say(wire::kind what) {
    const wire::header head{what, 0, 0, 0, p.known_as()};
    p.say_as_it_is(&head, sizeof head);
  }
  /// No time passes, and all that is to be done by now is.
  void settle() {
    for (int i = 0; i < 3; ++i) p.settle(milliseconds(0));
  }
  /// How long it takes until the peer is asked the next time.
  milliseconds until_asked() {
    milliseconds passed{0};
    for (settle(); p.waiting(wire::kind::close_request) == 0; ++passed) {
      if (passed > milliseconds(100)) break;
      v.clock.at += milliseconds(1);
      settle();
    }
    EXPECT_TRUE(p.heard_whole(wire::kind::close_request));
    return passed;
  }

  endpoint_by_itself v{settings()};
  peer_by_hand p{v};
};

TEST_F(connection_not_needed, is_asked_about_after_twice_the_time_where_the_peer_refuses) {
  until_asked();
  say(wire::kind::close_refuse);
  milliseconds last = until_asked();
  for (int i = 0; i < 4; ++i) {
    say(wire::kind::close_refuse);
    const milliseconds next = until_asked();
    EXPECT_EQ(next, 2 * last);
    last = next;
  }
}

// The peer says no more then, so nothing would wake the endpoint.
TEST_F(connection_not_needed, keeps_the_endpoint_awake_when_the_peer_has_agreed) {
  until_asked();
  settle();
  ASSERT_FALSE(v.ep->needs_polling());
  say(wire::kind::close_accept);
  bool was_awake = false;
  for (int i = 0; i < 40; ++i) {
    v.net.advance(1'000'000);
    v.progress(milliseconds(0));
    was_awake = was_awake || v.ep->needs_polling();
  }
  EXPECT_TRUE(was_awake);
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
}

}  // namespace
}  // namespace gaudi::proto::test
