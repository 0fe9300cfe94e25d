// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/suballocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace gaudi::device {
namespace {

constexpr std::uint64_t page = suballocator::granule;
constexpr std::uint64_t first = 0x1001001800000000;

TEST(suballocator, gives_nothing_without_a_region) {
  suballocator blocks;
  EXPECT_FALSE(blocks.allocate(1));
}

TEST(suballocator, rounds_up_to_the_granule) {
  suballocator blocks;
  blocks.add_region(first, 4 * page);
  EXPECT_EQ(blocks.allocate(1)->base, first);
  EXPECT_EQ(blocks.allocate(page + 1)->base, first + page);
  EXPECT_EQ(blocks.allocate(page)->base, first + 3 * page);
  EXPECT_FALSE(blocks.allocate(1));
}

TEST(suballocator, takes_the_smallest_block_that_fits) {
  suballocator blocks;
  blocks.add_region(first, 16 * page);
  const auto big = blocks.allocate(4 * page);
  const auto wall = blocks.allocate(page);
  const auto small = blocks.allocate(2 * page);
  const auto rest = blocks.allocate(9 * page);
  ASSERT_TRUE(wall && rest);
  blocks.free(big->base);
  blocks.free(small->base);
  EXPECT_EQ(blocks.allocate(2 * page)->base, small->base);
  EXPECT_EQ(blocks.allocate(3 * page)->base, big->base);
}

TEST(suballocator, merges_neighbours_on_both_sides) {
  suballocator blocks;
  blocks.add_region(first, 3 * page);
  const auto a = blocks.allocate(page), b = blocks.allocate(page), c = blocks.allocate(page);
  blocks.free(a->base);
  blocks.free(c->base);
  EXPECT_FALSE(blocks.allocate(2 * page));
  blocks.free(b->base);
  EXPECT_TRUE(blocks.is_empty(first));
  EXPECT_EQ(blocks.allocate(3 * page)->base, first);
}

TEST(suballocator, does_not_merge_across_adjacent_regions) {
  suballocator blocks;
  blocks.add_region(first, 2 * page);
  blocks.add_region(first + 2 * page, 2 * page);
  EXPECT_FALSE(blocks.allocate(3 * page));
  const auto a = blocks.allocate(2 * page), b = blocks.allocate(2 * page);
  blocks.free(a->base);
  blocks.free(b->base);
  EXPECT_FALSE(blocks.allocate(3 * page));
  blocks.remove_region(first);
  EXPECT_EQ(blocks.free_bytes(), 2 * page);
  EXPECT_EQ(blocks.allocate(page)->base, first + 2 * page);
}

TEST(suballocator, refuses_to_free_what_it_did_not_give) {
  suballocator blocks;
  blocks.add_region(first, 4 * page);
  const auto a = blocks.allocate(2 * page);
  EXPECT_FALSE(blocks.free(a->base + page));
  EXPECT_FALSE(blocks.free(first + 4 * page));
  EXPECT_TRUE(blocks.free(a->base));
  EXPECT_FALSE(blocks.free(a->base));
}

/// Random allocations and frees against the plainest model: a map of what is in use.
TEST(suballocator, never_overlaps_and_loses_nothing) {
  constexpr std::uint64_t region = 256 * page;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    suballocator blocks;
    blocks.add_region(first, region);
    blocks.add_region(first + region, region);  // adjacent: must stay apart
    std::map<std::uint64_t, std::uint64_t> used;
    std::uint64_t used_bytes = 0;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0 || used.empty()) {
        const std::uint64_t len = 1 + random() % (24 * page);
        const auto got = blocks.allocate(len);
        if (!got) continue;
        ASSERT_GE(got->len, len);
        ASSERT_EQ(got->base % page, 0U);
        ASSERT_TRUE(got->base >= got->region && got->base + got->len <= got->region + region);
        const auto next = used.lower_bound(got->base);
        ASSERT_TRUE(next == used.end() || got->base + got->len <= next->first);
        ASSERT_TRUE(next == used.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= got->base);
        used[got->base] = got->len;
        used_bytes += got->len;
      } else {
        const auto victim = std::next(used.begin(), static_cast<long>(random() % used.size()));
        ASSERT_TRUE(blocks.free(victim->first));
        used_bytes -= victim->second;
        used.erase(victim);
      }
      ASSERT_EQ(blocks.free_bytes(), 2 * region - used_bytes);
    }
    for (const auto& [base, len] : used) ASSERT_TRUE(blocks.free(base));
    EXPECT_TRUE(blocks.is_empty(first) && blocks.is_empty(first + region));
    EXPECT_EQ(blocks.allocate(region)->len, region);
  }
}

}  // namespace
}  // namespace gaudi::device
