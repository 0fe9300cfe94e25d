// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "placed_messages.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gaudi::stress {
namespace {

std::vector<std::uint64_t> data_of(const std::vector<placed_message>& messages) {
  std::vector<std::uint64_t> all;
  for (const placed_message& m : messages) all.push_back(m.message.data);
  return all;
}

TEST(placed_messages, are_ordered_by_place_and_not_by_end) {
  std::vector<placed_message> come{{300, {50, 3}}, {0, {100, 1}}, {100, {200, 2}}};
  ASSERT_TRUE(order_by_place(come, 350));
  EXPECT_EQ(data_of(come), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST(placed_messages, that_are_empty_come_before_the_one_at_their_place) {
  std::vector<placed_message> come{{10, {5, 4}}, {0, {10, 1}}, {10, {0, 2}}, {10, {0, 3}}};
  ASSERT_TRUE(order_by_place(come, 15));
  EXPECT_EQ(data_of(come), (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST(placed_messages, that_overlap_are_wrong) {
  std::vector<placed_message> come{{0, {100, 1}}, {99, {10, 2}}};
  EXPECT_FALSE(order_by_place(come, 200));
  come[1].offset = 100;
  EXPECT_TRUE(order_by_place(come, 200));
}

TEST(placed_messages, that_leave_their_buffer_are_wrong) {
  std::vector<placed_message> come{{0, {100, 1}}, {100, {10, 2}}};
  EXPECT_TRUE(order_by_place(come, 110));
  EXPECT_FALSE(order_by_place(come, 109));
  // Before the buffer: the difference of two addresses, as a size.
  come[0].offset = static_cast<std::size_t>(-8);
  EXPECT_FALSE(order_by_place(come, 110));
}

}  // namespace
}  // namespace gaudi::stress
