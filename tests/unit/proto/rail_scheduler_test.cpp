// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/rail_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t share = 1000;  // bytes of a piece

/// Rails that carry so many bytes per nanosecond each, and a transfer whose pieces go where the
/// scheduler says.
class three_rails : public testing::Test {
 protected:
  void SetUp() override {
    c.at_core.rails = std::make_unique<rail_set>(settings.count);
    for (rail& r : c.at_core.rails->rails) r.now = rail::state::up;
  }

  struct posted {
    std::size_t place;
    base::clock::time_point ends;
    transfer t;
    rma_op w{t, 0, share};
  };

  // Hands out what there is room for, or lets time pass until a piece ends.
  void move(std::size_t pieces) {
    const auto begun = time.at;
    for (std::size_t left = pieces; left != 0 || !under_way.empty();) {
      const auto place = left ? scheduler.choose(c, share, left * share) : std::nullopt;
      if (place) {
        post(*place);
        --left;
      } else {
        ASSERT_FALSE(under_way.empty()) << "nobody gets the last piece";
        end_the_next();
      }
    }
    took = time.at - begun;
  }
  void post(std::size_t place) {
    auto& ready = free_from[place];
    ready = std::max(ready, time.at) + std::chrono::nanoseconds(share / rate[place]);
    posted& p = under_way.emplace_back();
    p.place = place;
    p.ends = ready;
    scheduler.posted(c, p.w, place, share);
    ++count[place];
  }
  void end_the_next() {
    const auto next =
        std::min_element(under_way.begin(), under_way.end(),
                         [](const auto& a, const auto& b) { return a.ends < b.ends; });
    time.at = next->ends;
    scheduler.ended(c, next->place, share, 0);
    under_way.erase(next);
  }

  rail_settings settings{.count = 3, .chunk = share, .others = {}};
  test::driven_clock time;
  path_counters paths;
  rail_scheduler scheduler{settings, false, base::clock(time), paths};
  peer p;
  connection c{p, connection_state::connected};
  std::map<std::size_t, std::size_t> rate{{0, 10}, {1, 10}, {2, 10}};
  std::map<std::size_t, base::clock::time_point> free_from;
  std::list<posted> under_way;
  std::map<std::size_t, std::size_t> count;
  base::clock::duration took{};
};

TEST_F(three_rails, are_for_transfers_of_two_pieces_and_more) {
  EXPECT_EQ(scheduler.threshold(), 2 * share);
  EXPECT_EQ(rail_scheduler(settings, true, base::clock(time), paths).threshold(), SIZE_MAX);
}

TEST_F(three_rails, of_one_speed_get_the_same) {
  move(300);
  for (const std::size_t place : {0U, 1U, 2U})
    EXPECT_NEAR(static_cast<double>(count[place]), 100, 5);
  EXPECT_EQ(paths.rails.bytes, (count[1] + count[2]) * share);
}

TEST_F(three_rails, get_as_much_as_they_are_fast) {
  rate = {{0, 40}, {1, 10}, {2, 10}};
  move(600);
  EXPECT_NEAR(static_cast<double>(count[0]), 400, 20);
  EXPECT_NEAR(static_cast<double>(count[1]), 100, 10);
}

// A piece takes the slow rail 1 us, and the others together 8 of them.
TEST_F(three_rails, wait_for_the_fast_one_at_the_end) {
  rate = {{0, 40}, {1, 40}, {2, 1}};
  move(1000);
  count.clear();
  move(8);
  EXPECT_EQ(count[2], 0U);
  EXPECT_LT(took, std::chrono::nanoseconds(200));
}

// The core makes what it needs for a connection when that is first used.
TEST_F(three_rails, are_not_measured_by_what_comes_first) {
  rate = {{0, 40}, {1, 40}, {2, 1}};
  move(40);
  rate[2] = 40;
  count.clear();
  move(30);
  EXPECT_GE(count[2], 4U);
}

TEST_F(three_rails, are_tried_again_after_a_while) {
  rate = {{0, 40}, {1, 40}, {2, 1}};
  move(1000);
  rate[2] = 40;
  count.clear();
  for (int i = 0; i < 10; ++i) move(8);
  EXPECT_EQ(count[2], 0U);
  time.at += std::chrono::milliseconds(1001);
  for (int i = 0; i < 10; ++i) move(8);
  EXPECT_GE(count[2], 16U);
}

TEST_F(three_rails, have_no_more_than_a_few_pieces_each) {
  std::size_t handed_out = 0;
  while (const auto place = scheduler.choose(c, share, 1000 * share)) {
    post(*place);
    ++handed_out;
  }
  EXPECT_EQ(handed_out, 12U);
}

TEST_F(three_rails, get_nothing_while_they_are_down) {
  c.at_core.rails->rails[1].now = rail::state::lost;
  move(100);
  EXPECT_EQ(count[1], 0U);
  EXPECT_GT(count[2], 0U);
}

// Whatever their speeds, the last piece finds a rail.
TEST_F(three_rails, finish_whatever_their_speeds) {
  for (std::size_t n = 0; n < 200; ++n) {
    for (auto& [place, bytes] : rate) bytes = 1 + (n * 7919 + place * 104729) % 97;
    move(1 + n % 17);
  }
}

TEST_F(three_rails, are_made_where_one_is_down_and_it_is_time) {
  rail_set& set = *c.at_core.rails;
  scheduler.want(c);
  EXPECT_FALSE(set.is_wanted) << "all are up";
  EXPECT_FALSE(scheduler.any_to_look_at());
  set.rails[1].now = rail::state::down;
  set.asks_from = time.at + std::chrono::seconds(1);
  scheduler.want(c);
  EXPECT_FALSE(set.is_wanted) << "the last attempt has just failed";
  time.at = set.asks_from;
  scheduler.want(c);
  EXPECT_TRUE(set.is_wanted);
  EXPECT_EQ(scheduler.take_to_look_at().size(), 1U);
  set.is_listed = false;
  scheduler.want(c);
  EXPECT_FALSE(scheduler.any_to_look_at()) << "it was asked for them";
}

// What is posted again goes where its place among the packets is.
TEST_F(three_rails, are_not_for_what_a_session_posts_again) {
  transfer t;
  t.connection = &c;
  t.length = 100 * share;
  c.session.is_replaying = true;
  EXPECT_FALSE(scheduler.shares_out(t));
  c.session.is_replaying = false;
  EXPECT_TRUE(scheduler.shares_out(t));
}

TEST_F(three_rails, are_not_for_what_has_to_keep_its_order) {
  rail_scheduler in_order(settings, true, base::clock(time), paths);
  transfer t;
  t.connection = &c;
  t.length = 100 * share;
  EXPECT_TRUE(scheduler.shares_out(t));
  EXPECT_FALSE(in_order.shares_out(t));
  t.length = 2 * share - 1;
  EXPECT_FALSE(scheduler.shares_out(t));
}

}  // namespace
}  // namespace gaudi::proto
