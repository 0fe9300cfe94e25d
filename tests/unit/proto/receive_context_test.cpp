// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/match/receive_context.hpp"

#include <gtest/gtest.h>

#include "endpoint_node.hpp"

namespace gaudi::proto::test {
namespace {

/// Two endpoints that share their receives and know two senders by the same addresses.
struct shared_receives : testing::Test {
  shared_receives() {
    for (node* n : {&x, &y}) {
      n->meet(first);
      n->ep->messages().share(context);
      n->meet(second);
      EXPECT_TRUE(n->ep->enable());
    }
  }

  int receive(std::vector<std::byte>& place, fi_addr_t from, void* as) {
    completion_spec completion{.context = as, .report = true, .shared = true};
    return context.receive(memory_of(place.data(), place.size()),
                           {.from = from, .tag = 1, .tagged = true, .completion = completion});
  }
  void send(live_node& from, node& to, std::vector<std::byte>& bytes) {
    const fi_addr_t address = from.meet(to);
    EXPECT_EQ(
        post({&first, &second, &x, &y},
             [&] { return from.send(address, memory_of(bytes.data(), bytes.size()), 1, &bytes); }),
        0);
    EXPECT_EQ(next(from).context, &bytes);
  }
  cq_entry next(node& of) { return wait(of, {&first, &second, &x, &y}); }

  receive_context context{4096};
  live_node first;
  live_node second;
  node x;
  node y;
};

TEST_F(shared_receives, name_a_sender_whichever_endpoint_it_sends_to) {
  auto one = counting(100, 1);
  auto two = counting(100, 2);
  std::vector<std::byte> of_second(100);
  std::vector<std::byte> of_any(100);
  ASSERT_EQ(receive(of_second, 1, number(1)), 0);
  ASSERT_EQ(receive(of_any, FI_ADDR_UNSPEC, number(2)), 0);
  send(first, y, one);
  EXPECT_EQ(next(y).context, number(2));
  send(second, y, two);
  EXPECT_EQ(next(y).context, number(1));
  EXPECT_EQ(of_any, one);
  EXPECT_EQ(of_second, two);
}

TEST_F(shared_receives, name_the_sender_of_a_message_that_waits) {
  auto one = counting(100, 1);
  auto two = counting(100, 2);
  send(first, x, one);
  send(second, y, two);
  std::vector<std::byte> place(100);
  ASSERT_EQ(receive(place, 1, number(1)), 0);
  EXPECT_EQ(next(y).context, number(1));
  EXPECT_EQ(place, two);
  ASSERT_EQ(receive(place, 0, number(2)), 0);
  EXPECT_EQ(next(x).context, number(2));
  EXPECT_EQ(place, one);
}

TEST_F(shared_receives, carry_long_messages_to_both) {
  for (node* to : {&x, &y}) {
    auto sent = counting(1 << 20, 3);
    std::vector<std::byte> place(sent.size());
    ASSERT_EQ(receive(place, FI_ADDR_UNSPEC, number(3)), 0);
    send(first, *to, sent);
    EXPECT_EQ(next(*to).context, number(3));
    EXPECT_EQ(place, sent);
  }
}

// Else an application that cancels its receives has ever more memory taken for them.
TEST_F(shared_receives, give_back_the_place_of_one_that_is_cancelled) {
  std::vector<std::byte> place(100);
  ASSERT_EQ(receive(place, FI_ADDR_UNSPEC, number(1)), 0);
  ASSERT_EQ(receive(place, FI_ADDR_UNSPEC, number(2)), 0);
  ASSERT_EQ(context.cancel(number(1)), 0);
  EXPECT_EQ(context.posted(), 1U);
  ASSERT_EQ(context.cancel(number(2)), 0);
  EXPECT_EQ(context.posted(), 0U);
}

}  // namespace
}  // namespace gaudi::proto::test
