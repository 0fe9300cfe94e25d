// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Credits of a peer's messages that go back to it with messages of this end's.
#include <array>
#include <vector>

#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

class returned_credits : public testing::TestWithParam<std::size_t> {
 protected:
  void take_messages_of_peer(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(v.ep->receives().receive(test::memory_of(room.data(), room.size()),
                                         {.completion = v.completion(&room)}),
                0);
      p.say(wire::kind::eager, wire::eager_fields{}, wire::eager_size(0));
      p.settle();
      EXPECT_EQ(v.take().error, 0);
    }
  }

  test::endpoint_by_itself v;
  test::peer_by_hand p{v};
  std::array<std::byte, 8> room{};
};

// A packet of their own for them would be one more for each few messages.
TEST_P(returned_credits, go_with_the_next_message) {
  take_messages_of_peer(3);
  ASSERT_EQ(p.data_credits(), 0U);
  auto bytes = test::counting(GetParam());
  ASSERT_EQ(v.ep->send(test::memory_of(bytes.data(), bytes.size()),
                       {.to = p.address(), .completion = v.completion(&bytes)}),
            0);
  p.settle();
  const auto heard = p.heard<wire::header>(wire::kind::eager);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->data_credits, 3U);
  EXPECT_EQ(heard->connection, p.said_of_itself().connection);
  EXPECT_EQ(p.data_credits(), 3U);
}

INSTANTIATE_TEST_SUITE_P(short_and_long, returned_credits, testing::Values(8, 3000));

}  // namespace
}  // namespace gaudi::proto
