// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is said to who asks for what cannot be had.
#include "peer_by_hand.hpp"
#include "two_nics.hpp"

namespace gaudi::proto::test {
namespace {

class refused_requests : public testing::Test {
 protected:
  const hello& asked_for(const hello& request) {
    const auto ep = p.ask(request);
    p.settle();
    EXPECT_FALSE(p.is_accepted(*ep));
    return p.said_with_refusal();
  }

  endpoint_by_itself v{with_two_rails(), {some_address(1)}};
  peer_by_hand p{v};
};

// There is no connection that a number could be of.
TEST_F(refused_requests, are_answered_without_a_number_of_a_connection) {
  hello request = p.said_of_itself();
  request.version = 0;
  const hello& said = asked_for(request);
  ASSERT_NE(p.refusal(), wire::reject_reason::none);
  EXPECT_EQ(said.instance, p.instance_of_endpoint());
  EXPECT_EQ(said.connection, 0U);
}

TEST_F(refused_requests, for_a_rail_are_answered_without_any_number) {
  hello request = hello_of_rail(p.said_of_itself().instance, p.said_of_itself().connection,
                                p.known_as() + 1, 5, address_of(p.said_of_itself()));
  const hello& said = asked_for(request);
  ASSERT_EQ(p.refusal(), wire::reject_reason::no_session);
  EXPECT_EQ(said.instance, p.instance_of_endpoint());
  EXPECT_EQ(said.connection, 0U) << "here";
  EXPECT_EQ(wire::resumed(said), 0U) << "at the peer";
  EXPECT_EQ(said.host, 0U) << "of the rail";
}

// Over a stream its sockets are looked at once more at the end; here this is the only look.
TEST(unread_request_over_rdma, is_answered_by_an_endpoint_that_closes) {
  endpoint_by_itself v(small_settings(), {}, over_rdma());
  peer_by_hand p(v);
  hello request = p.said_of_itself();
  request.connection += 1;
  const auto asked = p.ask(request);
  v.net.advance(10'000'000);
  v.ep->shut_down();
  p.settle();
  EXPECT_FALSE(p.is_accepted(*asked));
  EXPECT_EQ(p.refusal(), wire::reject_reason::resources);
}

}  // namespace
}  // namespace gaudi::proto::test
