// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages between endpoints in one process, over the real tcp core.
#include <algorithm>
#include <random>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

TEST(endpoint, connects_on_demand_and_carries_all_sizes) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  for (const std::size_t length : {0U, 1U, 63U, 64U, 4095U, 4096U, 5000U, 100'000U, 3'000'000U})
    pass(a, to, b, length, length);
  EXPECT_EQ(a.paths.eager_ops, 6U);
  EXPECT_EQ(a.paths.direct_bytes + b.paths.direct_bytes + b.paths.cma_bytes + a.paths.cma_bytes,
            5000U + 100'000U + 3'000'000U);
  EXPECT_EQ(a.paths.staged_ops + b.paths.staged_ops, 0U);
}

TEST(endpoint, messages_keep_their_order_over_credits_and_protocols) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::mt19937 random(11);
  std::vector<std::vector<std::byte>> sent;
  for (unsigned i = 0; i < 500; ++i) sent.push_back(counting(random() % 3 ? 10 : 9000, i));
  for (std::size_t i = 0; i < sent.size(); ++i)
    ASSERT_EQ(
        post({&a, &b},
             [&] { return a.send(to, memory_of(sent[i].data(), sent[i].size()), 1, nullptr); }),
        0);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    std::vector<std::byte> got(10'000);
    ASSERT_EQ(b.receive(memory_of(got.data(), got.size()), 1, &got), 0);
    const cq_entry c = wait(b, {&a, &b});
    ASSERT_EQ(c.error, 0);
    got.resize(c.length);
    ASSERT_EQ(got, sent[i]) << "message " << i;
  }
}

// A receiver that keeps unexpected messages beyond the limit stops its sender, and only that one.
TEST(endpoint, a_flood_stops_at_the_limit_and_goes_on_when_it_is_received) {
  auto config = test::small_settings();
  config.unexpected_limit = 65536;
  live_node flooder;
  live_node other;
  live_node b(config);
  const auto to = flooder.meet(b);
  const auto other_to = other.meet(b);
  auto bytes = counting(4000);
  int sent = 0;
  int refused_in_a_row = 0;
  while (sent < 2000 && refused_in_a_row < 20000) {
    const int ret = flooder.send(to, memory_of(bytes.data(), bytes.size()), 7, nullptr);
    ASSERT_TRUE(ret == 0 || ret == -FI_EAGAIN) << ret;
    refused_in_a_row = ret ? refused_in_a_row + 1 : 0;
    if (ret == 0) ++sent;
    b.ep->progress();
  }
  EXPECT_GE(sent, 16);
  EXPECT_LT(sent, 200) << "4000 bytes each, and 64 KiB is all that is to be kept";
  pass(other, other_to, b, 100, 8);

  std::vector<std::byte> got(bytes.size());
  for (int i = 0; i < sent; ++i) {
    ASSERT_EQ(b.receive(memory_of(got.data(), got.size()), 7, &got), 0);
    ASSERT_EQ(wait(b, {&flooder, &b}).error, 0) << "message " << i;
  }
  while (!flooder.queue.empty()) flooder.queue.pop();
  pass(flooder, to, b, 4000, 9);
}

TEST(endpoint, longer_than_the_receive_is_cut_off_and_said) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  for (const std::size_t length : {1000U, 50'000U}) {
    auto sent = counting(length);
    std::vector<std::byte> got(length);
    ASSERT_EQ(b.receive(memory_of(got.data(), 300), 1, &got), 0);
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), length), 1, &sent); }),
              0);
    const cq_entry c = wait(b, {&a, &b});
    EXPECT_EQ(c.error, FI_ETRUNC);
    EXPECT_EQ(c.length, 300U);
    EXPECT_EQ(c.truncated_bytes, length - 300);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + 300, sent.begin()));
    EXPECT_EQ(got[300], std::byte{0}) << "nothing behind the receive's end is touched";
    EXPECT_EQ(wait(a, {&a, &b}).error, 0) << "the sender's message did arrive";
  }
}

TEST(endpoint, a_claimed_message_is_the_claimant_s_alone) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  for (const std::size_t length : {200U, 20'000U}) {
    auto sent = counting(length);
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), length), 1, &sent); }),
              0);
    const recv_params wanted{.tag = 1, .tagged = true, .completion = b.completion(number(7))};
    ASSERT_TRUE(progress_until({&a, &b}, [&] {
      b.ep->receives().peek(wanted, true, false);
      return b.take().error == 0;
    }));
    b.ep->receives().peek(wanted, false, false);
    EXPECT_EQ(b.take().error, FI_ENOMSG);
    std::vector<std::byte> got(length);
    EXPECT_EQ(b.ep->receives().receive_claimed(
                  memory_of(got.data(), length),
                  {.tagged = true, .completion = b.completion(number(8))}, false),
              -FI_EINVAL);
    ASSERT_EQ(b.ep->receives().receive_claimed(memory_of(got.data(), length), wanted, false), 0);
    EXPECT_EQ(wait(b, {&a, &b}).error, 0);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  }
}

TEST(endpoint, a_discarded_rendezvous_ends_at_its_sender) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  auto sent = counting(20'000);
  ASSERT_EQ(
      post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), sent.size()), 1, &sent); }), 0);
  ASSERT_TRUE(progress_until({&a, &b}, [&] {
    b.ep->receives().peek({.tag = 1, .tagged = true, .completion = b.completion(nullptr)}, false,
                          true);
    return b.take().error == 0;
  }));
  const cq_entry c = wait(a, {&a, &b});
  EXPECT_EQ(c.context, &sent);
  EXPECT_EQ(c.error, 0);
}

TEST(endpoint, a_cancelled_receive_ends_and_takes_nothing) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  char cancelled = 0;
  char taken = 0;
  ASSERT_EQ(b.receive(memory_of(&cancelled, 1), 1, number(1)), 0);
  ASSERT_EQ(b.receive(memory_of(&taken, 1), 1, number(2)), 0);
  EXPECT_EQ(b.ep->receives().cancel(number(1)), 0);
  EXPECT_EQ(b.ep->receives().cancel(number(1)), -FI_ENOENT);
  const cq_entry c = b.take();
  EXPECT_EQ(c.error, FI_ECANCELED);
  EXPECT_EQ(c.context, number(1));
  char byte = 'x';
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&byte, 1), 1, nullptr); }), 0);
  EXPECT_EQ(wait(b, {&a, &b}).context, number(2));
  EXPECT_EQ(taken, 'x');
  EXPECT_EQ(cancelled, 0);
}

// fi_tagged(3) wants a context of its own for each claim; one that is in use must not lose a
// message.
TEST(endpoint, a_claim_under_a_context_in_use_leaves_the_message) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  auto sent = counting(200);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), 200), 1, nullptr); }),
              0);
  const recv_params wanted{.tag = 1, .tagged = true, .completion = b.completion(number(7))};
  ASSERT_TRUE(progress_until({&a, &b}, [&] {
    b.ep->receives().peek(wanted, true, false);
    return b.take().error == 0;
  }));
  int ret = 0;
  ASSERT_TRUE(progress_until({&a, &b}, [&] {
    ret = b.ep->receives().peek(wanted, true, false);
    return b.take().error != FI_ENOMSG;
  }));
  EXPECT_EQ(ret, -FI_EINVAL);
  std::vector<std::byte> got(200);
  ASSERT_EQ(b.receive(memory_of(got.data(), 200), 1, number(8)), 0);
  EXPECT_EQ(wait(b, {&a, &b}).context, number(8));
  EXPECT_EQ(got, sent);
}

TEST(endpoint, transmit_complete_waits_for_the_core) {
  live_node a;
  live_node b;
  const fi_addr_t to = a.meet(b);
  pass(a, to, b, 8, 1);  // connected from here on
  auto bytes = counting(8);
  std::vector<std::byte> place(8);
  for (const bool transmit : {false, true}) {
    ASSERT_EQ(b.receive(memory_of(place.data(), 8), 2, number(1)), 0);
    const send_params message{.to = to,
                              .tag = 2,
                              .wire_flags = wire::tagged,
                              .transmit = transmit,
                              .completion = a.completion(number(2))};
    ASSERT_EQ(post({&a, &b}, [&] { return a.ep->send(memory_of(bytes.data(), 8), message); }), 0);
    EXPECT_EQ(a.queue.empty(), transmit) << "a short message is complete when it is copied, or not";
    EXPECT_EQ(wait(a, {&a, &b}).context, number(2));
    EXPECT_EQ(wait(b, {&a, &b}).error, 0);
  }
}

}  // namespace
}  // namespace gaudi::proto
