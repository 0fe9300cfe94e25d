// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/shared_slots.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace gaudi::proto {
namespace {

constexpr std::size_t slot = 4096;

TEST(shared_slots, are_given_out_once_and_again_when_they_are_back) {
  std::vector<std::byte> area(3 * slot);
  shared_slots slots(area, slot);
  ASSERT_EQ(slots.count(), 3U);
  std::vector<buffer*> all;
  while (buffer* b = slots.acquire()) all.push_back(b);
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(slots.number_of(*all[i]), i);
    EXPECT_EQ(all[i]->bytes, area.data() + i * slot);
    EXPECT_EQ(all[i]->home.slots, &slots);
  }
  slots.release(*all[1]);
  EXPECT_EQ(slots.acquire(), all[1]);
  EXPECT_EQ(slots.acquire(), nullptr);
}

// What the peer may name is a number: one that is not there, or one that it has named already.
TEST(shared_slots, are_taken_by_number_only_where_they_are_free) {
  std::vector<std::byte> area(2 * slot);
  shared_slots slots(area, slot);
  buffer* const b = slots.take(1);
  ASSERT_TRUE(b);
  EXPECT_EQ(b->bytes, area.data() + slot);
  EXPECT_EQ(slots.take(1), nullptr);
  EXPECT_EQ(slots.take(2), nullptr);
  EXPECT_EQ(slots.take(UINT64_MAX), nullptr);
  slots.release(*b);
  EXPECT_EQ(slots.take(1), b);
}

TEST(shared_slots, of_no_memory_are_none) {
  shared_slots slots({}, 0);
  EXPECT_EQ(slots.count(), 0U);
  EXPECT_EQ(slots.acquire(), nullptr);
  EXPECT_EQ(slots.take(0), nullptr);
}

}  // namespace
}  // namespace gaudi::proto
