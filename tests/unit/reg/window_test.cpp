// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/window.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace gaudi::reg {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr auto four_gib = window_size::at_least(4 * gib);

TEST(window_size, is_a_power_of_two_from_two_pages_up) {
  EXPECT_EQ(window_size().shift(), 0U);
  EXPECT_EQ(window_size::at_least(0).shift(), 0U);
  EXPECT_EQ(window_size::at_least(1).shift(), 13U);
  EXPECT_EQ(window_size::at_least(8192).shift(), 13U);
  EXPECT_EQ(window_size::at_least(8193).shift(), 14U);
  EXPECT_EQ(four_gib.shift(), 32U);
  EXPECT_EQ(window_size::at_least(UINT64_MAX).shift(), 0U);
}

TEST(windows, are_the_whole_where_that_is_no_longer_or_none_are_wanted) {
  EXPECT_EQ(window_for(4 * gib - 1, 5, 100, four_gib).number, 0U);
  EXPECT_EQ(window_for(96 * gib, 5, 100, window_size()).number, 0U);
  const window all = window_for(96 * gib, 0, 96 * gib, four_gib);
  EXPECT_EQ(all.number, 0U);
  EXPECT_EQ(all.offset, 0U);
  EXPECT_EQ(all.length, 96 * gib);
}

TEST(windows, of_short_ranges_are_shared_by_all_that_cross_no_border) {
  std::set<std::uint64_t> numbers;
  for (std::uint64_t at = 0; at < 96 * gib; at += gib / 2)
    numbers.insert(window_for(96 * gib, at, gib / 2, four_gib).number);
  EXPECT_EQ(numbers.size(), 24U);
  const window across = window_for(96 * gib, 8 * gib - 1, 2, four_gib);
  EXPECT_EQ(across.offset, 6 * gib);
  EXPECT_EQ(across.length, 4 * gib);
}

TEST(windows, end_with_the_allocation) {
  const window last = window_for(9 * gib, 8 * gib + 5, 10, four_gib);
  EXPECT_EQ(last.offset, 8 * gib);
  EXPECT_EQ(last.length, gib);
}

TEST(windows, that_hold_any_range_are_few_and_each_has_its_number) {
  std::mt19937_64 random(11);
  for (const std::uint64_t whole : {4 * gib + 1, 5 * gib, 96 * gib - 4096, 128 * gib}) {
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> known;  // by number
    for (int i = 0; i < 200'000; ++i) {
      const std::uint64_t offset = random() % whole;
      const std::uint64_t most = whole - offset;
      const std::uint64_t length = 1 + random() % (random() % 2 ? most : 1 + most / 1000);
      unsigned from = 0;
      for (;;) {
        const window w = window_for(whole, offset, length, four_gib, from);
        ASSERT_LE(w.offset, offset);
        ASSERT_LE(offset - w.offset + length, w.length);
        ASSERT_LE(w.offset + w.length, whole);
        ASSERT_LT(w.number, window::numbers);
        const auto [at, added] = known.try_emplace(w.number, w.offset, w.length);
        ASSERT_EQ(at->second, std::pair(w.offset, w.length));
        // No range needs more than four times its length, unless that is less than the shortest.
        if (from == 0 && w.number != 0) {
          ASSERT_LE(w.length, std::max(4 * length, 4 * gib));
        }
        if (w.number == 0) break;
        ASSERT_GT(w.shift + 1, from);
        from = w.shift + 1;
      }
    }
    EXPECT_LE(known.size(), 4 * (whole / (4 * gib) + 1) + 8);
  }
}

TEST(windows, too_short_to_be_numbered_give_way_to_longer_ones) {
  const window w = window_for(96 * gib, 95 * gib, 1, window_size::at_least(8192));
  EXPECT_LT(w.number, window::numbers);
  EXPECT_LE(w.offset, 95 * gib);
  EXPECT_LT(95 * gib - w.offset, w.length);
}

}  // namespace
}  // namespace gaudi::reg
