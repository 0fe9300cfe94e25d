// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The core's events are looked at at once while a connection is being made, else now and then.
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

using std::chrono::milliseconds;

class connections_that_come_and_go : public testing::Test {
 protected:
  /// Whether the endpoint looks at what it is asked while no time passes.
  bool looks_at_once() {
    v.progress();
    hello request = other.said_of_itself();
    request.version = 0;
    const auto ep = other.ask(request);
    for (int i = 0; i < 50; ++i) other.settle(milliseconds(0));
    const bool has_looked = other.refusal() != wire::reject_reason::none;
    other.settle();
    EXPECT_NE(other.refusal(), wire::reject_reason::none) << "it looks when time passes";
    return has_looked;
  }

  endpoint_by_itself v{with_sessions()};
  peer_by_hand other{v, packet_way::core, 9};
};

TEST_F(connections_that_come_and_go, leave_the_endpoint_as_it_was_after_their_end) {
  EXPECT_FALSE(looks_at_once());
  {
    peer_by_hand p(v);
    p.close();
    p.settle();
  }
  EXPECT_FALSE(looks_at_once());
}

// The endpoint asks for another one, and nobody listens there.
TEST_F(connections_that_come_and_go, leave_it_as_it_was_where_they_were_never_confirmed) {
  peer_by_hand p(v, packet_way::core, 1, word::kept, wire::keeps_session);
  EXPECT_TRUE(looks_at_once());
  p.close();
  p.settle();
  EXPECT_FALSE(looks_at_once());
}

}  // namespace
}  // namespace gaudi::proto::test
