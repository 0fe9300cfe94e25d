// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer that asks for more than it takes.
#include "hostile_peer.hpp"

namespace gaudi::proto {
namespace {

using test::greeting;
using test::raw_client;
using test::victim;

std::size_t credits_in(const raw_client& peer) {
  std::size_t all = 0;
  for (const auto& bytes : peer.received)
    all += reinterpret_cast<const wire::header*>(bytes.data())->data_credits;
  return all;
}

std::size_t answers_in(const raw_client& peer) {
  return static_cast<std::size_t>(
      std::count_if(peer.received.begin(), peer.received.end(), [](const auto& bytes) {
        return reinterpret_cast<const wire::header*>(bytes.data())->what == wire::kind::read_reply;
      }));
}

// Its requests would fill the target's memory otherwise, which then failed those of others.
TEST(slow_reader, gets_a_credit_back_with_each_answer_and_not_before) {
  constexpr std::size_t takes = 2;
  victim v;
  raw_client peer;
  hello ours = greeting(60020);
  ours.control_window = takes;
  hello theirs{};
  ASSERT_EQ(peer.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  peer.listen(256);
  wire::rma_fields ask{};
  ask.head = {wire::kind::read, 0, 0, 0, theirs.connection};
  ask.address = v.region.address;
  ask.key = v.region.key;
  ask.length = 16;
  for (std::uint16_t i = 0; i < theirs.data_window; ++i) {
    ask.operation = i;
    ASSERT_TRUE(peer.send(&ask, sizeof ask));
  }
  for (int i = 0; i < 2000; ++i) {
    v.ep->progress();
    peer.progress();
  }
  EXPECT_EQ(answers_in(peer), takes);
  EXPECT_LE(credits_in(peer), takes);

  // It takes the others, one by one.
  wire::header took{wire::kind::credit, 0, 0, 1, theirs.connection};
  for (std::size_t i = takes; i < theirs.data_window; ++i) {
    ASSERT_TRUE(peer.send(&took, sizeof took));
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (answers_in(peer) <= i && std::chrono::steady_clock::now() < give_up) {
      v.ep->progress();
      peer.progress();
    }
    ASSERT_EQ(answers_in(peer), i + 1);
  }
}

}  // namespace
}  // namespace gaudi::proto
