// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/granted_slots.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {
namespace {

// What is pointed to is nobody's business here.
buffer* slot(std::uintptr_t n) {
  return reinterpret_cast<buffer*>(0x1000 * (n + 1));  // NOLINT(performance-no-int-to-ptr)
}

TEST(granted_slots, are_wanted_until_they_carry_all) {
  granted_slots slots;
  slots.begin(250, 100);
  for (std::uint32_t n = 0; n < 3; ++n) {
    EXPECT_TRUE(slots.wants_another());
    EXPECT_EQ(slots.give(*slot(n)), n);
  }
  EXPECT_FALSE(slots.wants_another());
  EXPECT_EQ(slots.held(), 3U);
}

TEST(granted_slots, one_that_was_filled_is_wanted_again_while_more_is_to_come) {
  granted_slots slots;
  slots.begin(250, 100);
  slots.give(*slot(0));
  slots.give(*slot(1));
  EXPECT_EQ(slots.filled(0, 100), slot(0));
  EXPECT_TRUE(slots.wants_another());
  slots.export_again();
  EXPECT_FALSE(slots.wants_another()) << "150 are to come, and 200 fit";
  EXPECT_EQ(slots.filled(1, 100), slot(1));
  EXPECT_FALSE(slots.wants_another());
  slots.take_back(1);
  EXPECT_EQ(slots.filled(0, 50), slot(0));
  EXPECT_FALSE(slots.wants_another());
  slots.take_back(0);
  EXPECT_EQ(slots.held(), 0U);
}

// Both ends know as many as there can be.
TEST(granted_slots, have_numbers_that_are_used_once) {
  granted_slots slots;
  slots.begin(250, 100);
  EXPECT_EQ(slots.numbers(), 0U);
  for (std::uint32_t n = 0; n < 2; ++n) slots.give(*slot(n));
  ASSERT_EQ(slots.filled(0, 100), slot(0));
  slots.take_back(0);
  EXPECT_EQ(slots.numbers(), 2U);
  EXPECT_EQ(slots.give(*slot(0)), 2U);
  EXPECT_EQ(slots.numbers(), 3U);
}

TEST(granted_slots, chunks_that_are_shorter_than_slots_want_more_of_them) {
  granted_slots slots;
  slots.begin(300, 100);
  for (std::uint32_t n = 0; n < 3; ++n) slots.give(*slot(n));
  EXPECT_FALSE(slots.wants_another());
  EXPECT_NE(slots.filled(0, 20), nullptr);
  EXPECT_TRUE(slots.wants_another()) << "280 are to come, 20 at a time";
  slots.export_again();
  EXPECT_TRUE(slots.wants_another()) << "also into slots for 300";
}

TEST(granted_slots, what_was_not_given_was_not_filled) {
  granted_slots slots;
  slots.begin(250, 100);
  EXPECT_EQ(slots.filled(0, 100), nullptr) << "none was given";
  slots.give(*slot(0));
  EXPECT_EQ(slots.filled(1, 100), nullptr) << "no such number";
  EXPECT_NE(slots.filled(0, 100), nullptr);
  EXPECT_EQ(slots.filled(0, 100), nullptr) << "all are here";
  slots.take_back(0);
  slots.give(*slot(1));
  EXPECT_EQ(slots.filled(0, 100), nullptr) << "taken back";
  EXPECT_EQ(slots.filled(1, 151), nullptr) << "more than there is";
  EXPECT_NE(slots.filled(1, 100), nullptr);
}

TEST(granted_slots, all_that_are_held_come_back_at_the_end) {
  granted_slots slots;
  slots.begin(300, 100);
  for (std::uint32_t n = 0; n < 3; ++n) slots.give(*slot(n));
  slots.filled(1, 100);
  slots.take_back(1);
  EXPECT_EQ(slots.take_all(), (std::vector<buffer*>{slot(0), slot(2)}));
  EXPECT_EQ(slots.held(), 0U);
  EXPECT_TRUE(slots.take_all().empty());
}

// A source with chunks of any length, and a sink that empties slots in any order: there is always
// one to go on with, none is left in the end, and none is held that nothing more can come in.
TEST(granted_slots, carry_everything_whatever_the_chunks_are) {
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    const std::size_t length = 1 + random() % 2000;
    const std::size_t slot_length = 1 + random() % 200;
    const std::size_t depth = 1 + random() % 8;
    granted_slots slots;
    slots.begin(length, slot_length);
    std::vector<std::uint32_t> at_source;
    std::vector<std::uint32_t> filled;
    while (slots.wants_another() && slots.held() < depth)
      at_source.push_back(slots.give(*slot(slots.numbers())));
    std::size_t left = length;
    while (left != 0 || !filled.empty()) {
      ASSERT_FALSE(at_source.empty() && filled.empty()) << "stuck, seed " << seed;
      const bool fills = left != 0 && !at_source.empty() && (filled.empty() || random() % 2);
      auto& from = fills ? at_source : filled;
      const std::size_t which = random() % from.size();
      const std::uint32_t number = from[which];
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(which));
      if (fills) {
        const std::size_t n = std::min<std::size_t>(left, 1 + random() % slot_length);
        ASSERT_NE(slots.filled(number, n), nullptr);
        left -= n;
        filled.push_back(number);
      } else if (slots.wants_another()) {
        slots.export_again();
        at_source.push_back(number);
      } else {
        slots.take_back(number);
      }
    }
    EXPECT_EQ(slots.held(), at_source.size());
    EXPECT_FALSE(slots.wants_another());
  }
}

}  // namespace
}  // namespace gaudi::proto
