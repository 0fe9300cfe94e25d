// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What wakes a peer on this host that sleeps until its core has something.
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::packet_way;

class peer_that_sleeps : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    return s;
  }
  void send_to_it() {
    while (p.heard_by<wire::header>(packet_way::core, wire::kind::credit)) {
    }
    ASSERT_TRUE(p.channel().in().sleep());
    ASSERT_EQ(v.ep->send(test::memory_of(&byte, 1),
                         {.to = p.address(), .inject = true, .completion = {}}),
              0);
  }
  bool is_woken() {
    p.settle();
    return p.heard_by<wire::header>(packet_way::core, wire::kind::credit).has_value();
  }

  std::byte byte{};
  test::endpoint_by_itself v{settings()};
  test::peer_by_hand p{v, packet_way::ring_asleep};
};

TEST_F(peer_that_sleeps, is_woken_by_the_core) {
  send_to_it();
  EXPECT_TRUE(is_woken());
}

// Else it would sleep for ever.
TEST_F(peer_that_sleeps, is_woken_as_soon_as_the_core_has_room) {
  v.net.refuse_posts();
  send_to_it();
  EXPECT_FALSE(is_woken());
  v.net.calm();
  EXPECT_TRUE(is_woken());
}

}  // namespace
}  // namespace gaudi::proto
