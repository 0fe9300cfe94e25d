// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection_room.hpp"

#include <gtest/gtest.h>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using std::chrono::milliseconds;

TEST(connection_room, is_for_any_number_without_a_limit) {
  test::driven_clock clock;
  connection_room room(0, base::clock(clock));
  EXPECT_FALSE(room.is_full(1'000'000));
  EXPECT_EQ(connection_room::surplus(0, 1'000'000), 0U);
}

TEST(connection_room, has_none_left_at_its_limit) {
  test::driven_clock clock;
  connection_room room(16, base::clock(clock));
  EXPECT_FALSE(room.is_full(15));
  EXPECT_TRUE(room.is_full(16));
  EXPECT_TRUE(room.is_full(20));
}

TEST(connection_room, is_made_where_none_is_closed_for_a_second) {
  test::driven_clock clock;
  connection_room room(16, base::clock(clock));
  EXPECT_TRUE(room.is_full(16));
  clock.at += milliseconds(999);
  EXPECT_TRUE(room.is_full(16));
  clock.at += milliseconds(1);
  EXPECT_FALSE(room.is_full(16));
  EXPECT_FALSE(room.is_full(17));
  // Once there was room again the next second counts.
  EXPECT_FALSE(room.is_full(15));
  EXPECT_TRUE(room.is_full(16));
}

TEST(connection_room, has_some_closed_before_it_is_full) {
  EXPECT_EQ(connection_room::surplus(1024, 960), 0U);
  EXPECT_EQ(connection_room::surplus(1024, 961), 961U - 896U);
  EXPECT_EQ(connection_room::surplus(1024, 1024), 128U);
}

TEST(connection_room, that_is_small_has_one_closed_when_it_is_full) {
  for (std::size_t most : {1U, 2U, 3U, 8U}) {
    EXPECT_EQ(connection_room::surplus(most, most - 1), 0U);
    EXPECT_EQ(connection_room::surplus(most, most), 1U);
  }
}

}  // namespace
}  // namespace gaudi::proto
