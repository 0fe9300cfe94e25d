// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Peers that share receive buffers: what all of them may send is never more than there are.
#include "proto/connection/credit_pool.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace gaudi::proto {
namespace {

constexpr std::size_t others = 128;

class credit_pool_of_a_nic : public testing::Test {
 protected:
  connection& connect() {
    connection& c = connections_.emplace_back(peer_, connection_state::connected);
    c.data.start(credit_pool::most, pool_.open(c));
    return c;
  }
  void pass(connection& c, unsigned messages = 1) {
    for (unsigned i = 0; i < messages; ++i) {
      ASSERT_TRUE(c.data.arrived());
      pool_.consumed(c);
      static_cast<void>(c.data.take_returnable());
    }
  }
  /// Those that are asked give up all that they do not use.
  void move_credits() {
    if (!pool_.any_wanted()) return;
    connection* const completion = pool_.recall([this](auto&& visit) {
      for (connection& c : connections_) visit(c);
    });
    if (completion) pool_.released(*completion, completion->data.granted() - credit_pool::certain);
  }
  std::size_t promised() const {
    std::size_t sum = 0;
    for (const connection& c : connections_) sum += c.data.granted();
    return sum;
  }

  credit_pool pool_{true, others};
  peer peer_;
  std::deque<connection> connections_;
};

TEST_F(credit_pool_of_a_nic, never_promises_more_than_there_is) {
  for (std::size_t i = 1; i <= 200; ++i) {
    EXPECT_GE(connect().data.granted(), credit_pool::certain);
    EXPECT_LE(promised(), others + i * credit_pool::certain) << i << " peers";
  }
}

TEST_F(credit_pool_of_a_nic, gives_a_peer_that_sends_a_whole_window) {
  connection& c = connect();
  connect();
  connect();
  pass(c, 500);
  EXPECT_EQ(c.data.granted(), credit_pool::most);
}

TEST_F(credit_pool_of_a_nic, takes_from_those_that_were_busy_before) {
  for (int i = 0; i < 40; ++i) connect();
  for (connection& c : connections_) {
    for (int i = 0; i < 5'000; ++i) {
      pass(c);
      move_credits();
    }
    EXPECT_EQ(c.data.granted(), credit_pool::most);
    EXPECT_LE(promised(), others + 40 * credit_pool::certain);
  }
}

TEST_F(credit_pool_of_a_nic, lets_those_that_all_send_have_as_much_as_each_other) {
  for (int i = 0; i < 8; ++i) connect();
  for (int round = 0; round < 20'000; ++round) {
    for (connection& c : connections_) pass(c);
    move_credits();
  }
  for (const connection& c : connections_) {
    EXPECT_GE(c.data.granted(), 8U);
    EXPECT_LE(c.data.granted(), 40U);
  }
}

TEST_F(credit_pool_of_a_nic, has_back_what_a_connection_had_at_its_end) {
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) connect();
  for (int i = 0; i < 20'000; ++i) {
    pass(connections_[random() % 10], static_cast<unsigned>(random() % 20));
    if (random() % 3) move_credits();
  }
  for (connection& c : connections_) pool_.close(c);
  EXPECT_EQ(pool_.others(), others);
}

// The first has all that one may have, the second exactly half of that, and wants more.
TEST(credit_pool, takes_half_of_who_has_twice_as_much) {
  credit_pool pool(true, 88);
  peer of_both;
  connection rich(of_both, connection_state::connected);
  connection wants(of_both, connection_state::connected);
  const auto send_window = [&pool](connection& c) {
    for (unsigned left = c.share.target; left != 0; --left) {
      ASSERT_TRUE(c.data.arrived());
      pool.consumed(c);
      static_cast<void>(c.data.take_returnable());
    }
  };
  rich.data.start(credit_pool::most, pool.open(rich));
  send_window(rich);
  ASSERT_EQ(rich.share.target, credit_pool::most);
  send_window(rich);  // and its peer knows
  wants.data.start(credit_pool::most, pool.open(wants));
  send_window(wants);
  ASSERT_EQ(wants.share.target, credit_pool::most / 2);
  ASSERT_TRUE(pool.any_wanted());
  EXPECT_EQ(pool.recall([&](auto&& visit) {
    visit(rich);
    visit(wants);
  }),
            nullptr)
      << "it is busy, so less comes back";
  EXPECT_FALSE(pool.any_wanted()) << "until one wants more again";
  EXPECT_EQ(rich.share.target, credit_pool::most / 2);
  EXPECT_EQ(wants.share.target, credit_pool::most / 2);
}

TEST(credit_pool, asks_nobody_who_has_no_more_than_what_is_certain) {
  credit_pool pool(true, 0);
  peer of_both;
  connection asleep(of_both, connection_state::connected);
  connection wants(of_both, connection_state::connected);
  for (connection* c : {&asleep, &wants}) c->data.start(credit_pool::most, pool.open(*c));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(wants.data.arrived());
    pool.consumed(wants);
    static_cast<void>(wants.data.take_returnable());
  }
  ASSERT_TRUE(pool.any_wanted());
  EXPECT_EQ(pool.recall([&](auto&& visit) {
    visit(asleep);
    visit(wants);
  }),
            nullptr);
}

// Released, and still under way: the end that was asked has as many as it may keep.
TEST_F(credit_pool_of_a_nic, takes_no_more_than_a_peer_can_have) {
  connection& c = connect();
  ASSERT_TRUE(c.data.arrived());
  EXPECT_EQ(c.data.may_be_released(), c.data.granted() - 1);
  pool_.consumed(c);
  EXPECT_EQ(c.data.may_be_released(), c.data.granted() - c.data.returnable());
}

}  // namespace
}  // namespace gaudi::proto
