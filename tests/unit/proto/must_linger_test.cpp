// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint waits for before it closes: packet by packet, and without any time of a real
// clock (goodbye_test.cpp has closes of real endpoints).
#include <chrono>
#include <cstddef>

#include "peer_by_hand.hpp"
#include "proto/goodbye.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::memory_of;
using test::packet_way;
using test::peer_by_hand;
using namespace std::chrono_literals;

class a_close : public testing::Test {
 protected:
  static endpoint::settings lingering(std::chrono::milliseconds time) {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.linger = time;
    return s;
  }
  explicit a_close(std::chrono::milliseconds time = 1h, packet_way way = packet_way::core)
      : v(lingering(time)), peer(v, way) {}
  ~a_close() override {
    v.clock.at += 2h;  // what was not taken is given up
  }

  void send() {
    EXPECT_EQ(v.ep->send(memory_of(&said, 1), {.to = peer.address(), .completion = v.completion()}),
              0);
  }
  /// As the endpoint looks, and nothing of the network's moves.
  bool must_linger() {
    const bool must = v.ep->must_linger();
    v.ep->progress();
    return must;
  }
  void let_arrive() {
    v.net.advance(5'000'000);
    v.ep->progress();
  }

  char said = 'x';
  endpoint_by_itself v;
  peer_by_hand peer;
};

TEST_F(a_close, waits_for_nothing_where_nothing_was_sent) {
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::credit), 0U);
}

TEST_F(a_close, waits_until_the_peers_core_has_the_last_packet_and_sends_one_such) {
  send();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(must_linger());
  let_arrive();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::eager), 1U);
  EXPECT_EQ(peer.waiting(wire::kind::credit), 1U);
}

TEST_F(a_close, waits_for_room_for_its_last_packet) {
  send();
  let_arrive();
  v.net.refuse_posts();
  EXPECT_TRUE(must_linger());
  EXPECT_TRUE(must_linger());
  v.net.calm();
  EXPECT_TRUE(must_linger()) << "it is on its way";
  let_arrive();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::credit), 1U);
}

// Also where the peer has nothing to say to that, as its application does not progress.
TEST_F(a_close, does_not_wait_for_packets_that_the_peer_has_answered) {
  send();
  peer.settle();
  const wire::header credits{wire::kind::credit, 0, 1, 0, peer.known_as()};
  peer.say_as_it_is(&credits, sizeof credits);
  peer.settle();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::credit), 0U);
}

// No credit tells of these.
TEST_F(a_close, waits_for_what_the_core_writes) {
  std::vector<std::byte> place(100);
  const wire::segment there = peer.expose(place);
  EXPECT_EQ(v.ep->write(memory_of(&said, 1), {.target = peer.address(),
                                              .address = there.address,
                                              .key = there.key,
                                              .completion = v.completion()}),
            0);
  EXPECT_TRUE(must_linger());
  let_arrive();
  let_arrive();
  EXPECT_FALSE(must_linger());
  EXPECT_EQ(place[0], std::byte{'x'});
}

TEST_F(a_close, does_not_wait_for_a_peer_that_is_gone) {
  send();
  EXPECT_TRUE(must_linger());
  peer.close();
  peer.settle();
  EXPECT_FALSE(must_linger());
}

TEST_F(a_close, waits_as_long_as_it_may_from_its_first_question_on) {
  send();
  v.clock.at += 10h;
  EXPECT_TRUE(must_linger());
  v.clock.at += 1h - 1ms;
  EXPECT_TRUE(v.ep->must_linger());
  v.clock.at += 1ms;
  EXPECT_FALSE(v.ep->must_linger());
}

class a_short_close : public a_close {
 protected:
  a_short_close() : a_close(1ms) {}
};

// What only has to leave this process takes no peer's time.
TEST_F(a_short_close, has_half_a_second_all_the_same) {
  send();
  EXPECT_TRUE(must_linger());
  v.clock.at += 499ms;
  EXPECT_TRUE(v.ep->must_linger());
  v.clock.at += 1ms;
  EXPECT_FALSE(v.ep->must_linger());
}

class a_hasty_close : public a_close {
 protected:
  a_hasty_close() : a_close(0ms) {}
};

TEST_F(a_hasty_close, says_nothing_and_waits_for_what_the_core_has) {
  std::vector<std::byte> long_one(3000);
  EXPECT_EQ(v.ep->send(memory_of(long_one.data(), long_one.size()),
                       {.to = peer.address(), .completion = v.completion()}),
            0);
  EXPECT_TRUE(must_linger()) << "it has not left";
  let_arrive();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::eager), 1U);
  EXPECT_EQ(peer.waiting(wire::kind::credit), 0U);
}

// The packet that tells the target follows the write, and its completion says that it was told.
TEST_F(a_hasty_close, waits_for_a_write_of_which_the_target_is_told) {
  std::vector<std::byte> place(100);
  const wire::segment there = peer.expose(place);
  EXPECT_EQ(v.ep->write(memory_of(&said, 1), {.target = peer.address(),
                                              .address = there.address,
                                              .key = there.key,
                                              .data = 7,
                                              .has_data = true,
                                              .completion = v.completion()}),
            0);
  EXPECT_TRUE(must_linger());
  for (int i = 0; i < 10 && must_linger(); ++i) let_arrive();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::event), 1U);
}

class a_close_in_shared_memory : public a_close {
 protected:
  a_close_in_shared_memory() : a_close(1h, packet_way::ring) {}
};

// Packets there outlive their sender.
TEST_F(a_close_in_shared_memory, does_not_wait) {
  send();
  EXPECT_FALSE(must_linger());
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::eager), 1U);
  EXPECT_EQ(peer.waiting(wire::kind::credit), 0U);
}

TEST_F(a_close_in_shared_memory, is_told_by_the_core) {
  v.ep->shut_down();
  peer.settle();
  const auto left = peer.heard_by<wire::header>(packet_way::core, wire::kind::leave);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->flags, wire::via_core);
}

}  // namespace
}  // namespace gaudi::proto
