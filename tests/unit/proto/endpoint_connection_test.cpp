// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints that come, meet and go.
#include <algorithm>

#include "endpoint_node.hpp"
#include "sim/audit.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::node;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

TEST(endpoint_connection, both_may_connect_at_once) {
  for (int round = 0; round < 20; ++round) {
    live_node a;
    live_node b;
    const auto to_b = a.meet(b);
    const auto to_a = b.meet(a);
    char from_a = 'a';
    char from_b = 'b';
    char at_a = 0;
    char at_b = 0;
    ASSERT_EQ(a.receive(memory_of(&at_a, 1), 1, &at_a), 0);
    ASSERT_EQ(b.receive(memory_of(&at_b, 1), 1, &at_b), 0);
    // Neither progresses before both have asked.
    int a_sent = a.send(to_b, memory_of(&from_a, 1), 1, nullptr);
    int b_sent = b.send(to_a, memory_of(&from_b, 1), 1, nullptr);
    ASSERT_TRUE(progress_until({&a, &b},
                               [&] {
                                 if (a_sent == -FI_EAGAIN)
                                   a_sent = a.send(to_b, memory_of(&from_a, 1), 1, nullptr);
                                 if (b_sent == -FI_EAGAIN)
                                   b_sent = b.send(to_a, memory_of(&from_b, 1), 1, nullptr);
                                 return at_a && at_b;
                               }))
        << "round " << round;
    EXPECT_EQ(a_sent, 0);
    EXPECT_EQ(b_sent, 0);
    EXPECT_EQ(at_a, 'b');
    EXPECT_EQ(at_b, 'a');
  }
}

TEST(endpoint_connection, sends_to_itself) {
  live_node a;
  const auto self = a.meet(a);
  for (const std::size_t length : {8U, 100'000U}) {
    auto sent = counting(length);
    std::vector<std::byte> got(length);
    ASSERT_EQ(a.receive(memory_of(got.data(), length), 5, &got), 0);
    ASSERT_EQ(post({&a}, [&] { return a.send(self, memory_of(sent.data(), length), 5, &sent); }),
              0);
    std::vector<void*> ended{wait(a, {&a}).context, wait(a, {&a}).context};
    EXPECT_EQ(std::count(ended.begin(), ended.end(), &got), 1);
    EXPECT_EQ(std::count(ended.begin(), ended.end(), &sent), 1);
    EXPECT_EQ(got, sent);
  }
}

TEST(endpoint_connection, a_peer_that_is_not_there_gives_an_error_once_for_each_attempt) {
  live_node a;
  net_address nobody;
  {
    live_node gone;
    nobody = gone.ep->name();
  }
  const auto to = a.meet(nobody);
  char byte = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int ret = post({&a}, [&] { return a.send(to, memory_of(&byte, 1), 1, &byte); });
    EXPECT_EQ(ret, -FI_ECONNREFUSED) << fi_strerror(-ret);
  }
  EXPECT_TRUE(a.queue.empty()) << "an operation that was refused does not complete, too";
}

TEST(endpoint_connection, addresses_that_nobody_inserted_are_refused) {
  live_node a;
  char byte = 0;
  EXPECT_EQ(a.send(0, memory_of(&byte, 1), 1, nullptr), -FI_EINVAL);
  EXPECT_EQ(a.send(FI_ADDR_UNSPEC, memory_of(&byte, 1), 1, nullptr), -FI_EINVAL);
  EXPECT_EQ(a.ep->write(memory_of(&byte, 1), {.target = 3, .completion = {}}), -FI_EINVAL);
  EXPECT_EQ(a.ep->read(memory_of(&byte, 1), {.target = 3, .completion = {}}), -FI_EINVAL);
}

// What is outstanding towards a peer ends in error when it goes, and everything else goes on.
TEST(endpoint_connection, a_peer_that_vanishes_ends_what_waits_for_it) {
  live_node a;
  live_node survivor;
  auto victim = std::make_unique<live_node>();
  const auto to_victim = a.meet(*victim);
  const auto to_survivor = a.meet(survivor);
  pass(a, to_victim, *victim, 10, 1);
  auto bytes = counting(200'000);
  std::vector<std::byte> back(100);
  reg::region exposed;
  std::vector<std::byte> target(100);
  victim->expose(exposed, target, 99);
  // A rendezvous that nobody receives, a delivery that is never acknowledged, and a read that is
  // never answered.
  ASSERT_EQ(a.send(to_victim, memory_of(bytes.data(), bytes.size()), 2, number(1)), 0);
  ASSERT_EQ(
      a.ep->send(memory_of(bytes.data(), 10), {.to = to_victim,
                                               .tag = 3,
                                               .wire_flags = wire::tagged,
                                               .delivery = true,
                                               .completion = a.completion(number(2), FI_SEND)}),
      0);
  ASSERT_EQ(a.ep->read(memory_of(back.data(), back.size()),
                       {.target = to_victim,
                        .address = exposed.address,
                        .key = 99 | reg::key_table::software_bit,
                        .completion = a.completion(number(3), FI_READ)}),
            0);
  victim.reset();
  for (int i = 0; i < 3; ++i) {
    const cq_entry c = wait(a, {&a, &survivor});
    EXPECT_NE(c.error, 0) << "operation " << c.context;
    EXPECT_NE(c.error, FI_ETIMEDOUT) << i << " of three ended";
  }
  pass(a, to_survivor, survivor, 300'000, 4);
}

TEST(endpoint_connection, receives_from_an_address_that_nobody_inserted_are_refused) {
  live_node a;
  live_node b;
  const auto removed = a.meet(b);
  ASSERT_TRUE(a.addresses.remove(removed));
  char byte = 0;
  for (const fi_addr_t from : {removed, fi_addr_t{3}}) {
    recv_params wanted{.from = from, .tag = 1, .tagged = true, .completion = a.completion(&byte)};
    EXPECT_EQ(a.ep->receives().receive(memory_of(&byte, 1), wanted), -FI_EINVAL);
    EXPECT_EQ(a.ep->receives().peek(wanted, false, false), -FI_EINVAL);
    wanted.tagged = false;
    EXPECT_EQ(a.ep->receives().receive_many(memory_of(&byte, 1), wanted), -FI_EINVAL);
  }
  EXPECT_TRUE(a.queue.empty());
}

// FI_ECANCELED would say that the application had cancelled it.
TEST(endpoint_connection, a_peer_that_vanishes_resets_what_is_received_from_it) {
  auto config = test::small_settings();
  config.kernel = nullptr;
  live_node b(config);
  auto victim = std::make_unique<live_node>(config);
  const auto to = victim->meet(b);
  auto bytes = counting(3'000'000);
  std::vector<std::byte> got(bytes.size());
  pass(*victim, to, b, 10, 1);
  ASSERT_EQ(b.receive(memory_of(got.data(), got.size()), 2, &got), 0);
  ASSERT_EQ(victim->send(to, memory_of(bytes.data(), bytes.size()), 2, number(2)), 0);
  for (int i = 0; i < 20; ++i) victim->ep->progress();  // its offer has left
  // The peer does nothing more, so the core's read of its memory, or what the peer is asked to
  // write, is under way for ever.
  ASSERT_TRUE(progress_until({&b}, [&] { return b.ep->receives().posted() == 0; }));
  victim.reset();
  const cq_entry c = wait(b, {&b});
  EXPECT_EQ(c.error, FI_ECONNRESET) << fi_strerror(c.error);
  EXPECT_EQ(c.context, &got);
}

TEST(endpoint_connection, a_message_that_is_all_here_outlives_its_sender) {
  live_node b;
  auto bytes = counting(500);
  {
    live_node a;
    const auto to = a.meet(b);
    ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(bytes.data(), 500), 1, nullptr); }),
              0);
    auto probe = [&] {
      b.ep->receives().peek({.tag = 1, .tagged = true, .completion = b.completion(nullptr)}, false,
                            false);
      return b.take().error == 0;
    };
    ASSERT_TRUE(progress_until({&a, &b}, probe));
  }
  for (int i = 0; i < 1000; ++i) b.ep->progress();
  std::vector<std::byte> got(500);
  ASSERT_EQ(b.receive(memory_of(got.data(), 500), 1, &got), 0);
  EXPECT_EQ(wait(b, {&b}).error, 0);
  EXPECT_EQ(got, bytes);
}

TEST(endpoint_connection, a_peer_that_restarts_at_its_address_is_reached_again) {
  live_node a;
  auto first = std::make_unique<live_node>();
  const std::uint16_t port = first->ep->name().port();
  const auto to = a.meet(*first);
  pass(a, to, *first, 10, 1);
  first.reset();
  node second(test::small_settings(), port);
  ASSERT_TRUE(second.ep->enable());
  char byte = 'x';
  char got = 0;
  ASSERT_EQ(second.receive(memory_of(&got, 1), 2, &got), 0);
  // The first attempts may still meet the old connection's end.
  ASSERT_TRUE(progress_until({&a, &second}, [&] {
    static_cast<void>(a.send(to, memory_of(&byte, 1), 2, nullptr));
    return got == 'x';
  }));
}

TEST(endpoint_connection, a_port_that_is_taken_is_said_each_time) {
  live_node first;
  node second(test::small_settings(), first.ep->name().port());
  EXPECT_EQ(second.ep->enable().code(), -FI_EADDRINUSE);
  EXPECT_FALSE(second.ep->enabled());
  EXPECT_EQ(second.ep->enable().code(), -FI_EADDRINUSE);
  EXPECT_EQ(endpoint_audit::receive_buffers(*second.ep), 0U) << "nothing is left behind";
  second.ep->progress();
}

TEST(endpoint_connection, a_port_that_was_taken_can_be_had_later) {
  auto first = std::make_unique<live_node>();
  node second(test::small_settings(), first->ep->name().port());
  EXPECT_FALSE(second.ep->enable());
  first.reset();
  ASSERT_TRUE(second.ep->enable());
  live_node a;
  const auto to = a.meet(second);
  char byte = 'x';
  char got = 0;
  ASSERT_EQ(second.receive(memory_of(&got, 1), 2, &got), 0);
  ASSERT_EQ(post({&a, &second}, [&] { return a.send(to, memory_of(&byte, 1), 2, nullptr); }), 0);
  EXPECT_EQ(wait(second, {&a, &second}).error, 0);
  EXPECT_EQ(got, 'x');
}

TEST(endpoint_connection, nothing_leaves_before_it_is_enabled) {
  live_node b;
  node a;
  const auto to = a.meet(b);
  char byte = 0;
  EXPECT_EQ(a.send(to, memory_of(&byte, 1), 1, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(a.ep->read(memory_of(&byte, 1), {.target = to, .completion = {}}), -FI_EOPBADSTATE);
}

}  // namespace
}  // namespace gaudi::proto
