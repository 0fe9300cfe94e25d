// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/address_map.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <map>
#include <random>
#include <set>

namespace gaudi::device {
namespace {

constexpr std::uint64_t first = 0x1001001800000000;

location at(std::uint64_t base, std::uint64_t len, std::uint64_t allocation_id = 1) {
  return {.base = base,
          .len = len,
          .map_base = first,
          .map_len = 1 << 30,
          .allocation_id = allocation_id};
}

TEST(address_map, finds_nothing_when_empty) {
  const address_map map;
  EXPECT_EQ(map.find(first, 1).code(), -FI_ENOENT);
}

TEST(address_map, tells_where_in_the_allocation_a_range_is) {
  address_map map;
  ASSERT_TRUE(map.insert(at(first + 4096, 100, 9)));
  const auto found = map.find(first + 4096 + 30, 70);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, first + 4096);
  EXPECT_EQ(found->len, 100U);
  EXPECT_EQ(found->offset, 30U);
  EXPECT_EQ(found->map_base, first);
  EXPECT_EQ(found->map_len, 1U << 30);
  EXPECT_EQ(found->allocation_id, 9U);
  EXPECT_FALSE(found->adopted);
}

TEST(address_map, refuses_ranges_that_are_not_inside_one_allocation) {
  address_map map;
  ASSERT_TRUE(map.insert(at(first, 4096)));
  ASSERT_TRUE(map.insert(at(first + 4096, 4096)));
  EXPECT_EQ(map.find(first, 0).code(), -FI_EINVAL);
  EXPECT_EQ(map.find(first, 4097).code(), -FI_EINVAL);  // adjacent, yet another allocation
  EXPECT_EQ(map.find(first + 4096, UINT64_MAX).code(), -FI_EINVAL);
  EXPECT_EQ(map.find(first + 8191, 2).code(), -FI_EINVAL);
  EXPECT_EQ(map.find(first + 8192, 1).code(), -FI_ENOENT);
  EXPECT_EQ(map.find(first - 1, 1).code(), -FI_ENOENT);
  EXPECT_TRUE(map.find(first + 8191, 1));
}

TEST(address_map, refuses_overlaps_from_either_side) {
  address_map map;
  ASSERT_TRUE(map.insert(at(first + 100, 100)));
  EXPECT_FALSE(map.insert(at(first + 100, 100)));
  EXPECT_FALSE(map.insert(at(first + 199, 1)));
  EXPECT_FALSE(map.insert(at(first, 101)));
  EXPECT_FALSE(map.insert(at(first, 1000)));
  EXPECT_TRUE(map.insert(at(first, 100)));
  EXPECT_TRUE(map.insert(at(first + 200, 1)));
}

TEST(address_map, forgets_by_first_address_only) {
  address_map map;
  ASSERT_TRUE(map.insert(at(first, 4096)));
  EXPECT_FALSE(map.erase(first + 1));
  EXPECT_TRUE(map.erase(first));
  EXPECT_FALSE(map.erase(first));
  EXPECT_EQ(map.find(first, 1).code(), -FI_ENOENT);
}

TEST(address_map, stays_sorted_through_growth) {
  address_map map;
  std::mt19937 random(1);
  std::set<std::uint64_t> known;
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t base = first + (random() % 1000) * 4096;
    if (known.contains(base) ? known.erase(base) != 0 : !known.insert(base).second)
      ASSERT_TRUE(map.erase(base));
    else
      ASSERT_TRUE(map.insert(at(base, 4096)));
    const std::uint64_t probe = first + (random() % 1000) * 4096;
    ASSERT_EQ(static_cast<bool>(map.find(probe + 17, 1)), known.contains(probe));
  }
}

TEST(address_map, finds_each_however_they_lie) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 40; ++round) {
    address_map map;
    std::map<std::uint64_t, std::uint64_t> known;  // length by base
    for (int step = 0; step < 1500; ++step) {
      // Heaps of neighbours far from each other, and now and then below all others.
      const unsigned scale = 12 + random() % 30;
      const std::uint64_t base =
          first + ((std::uint64_t{1} << 44) >> round % 8) +
          (random() % 2 ? 0 - (random() % 64 << scale % 24) : random() % 64 << scale);
      if (known.contains(base) && random() % 2) {
        ASSERT_TRUE(map.erase(base));
        known.erase(base);
      } else {
        const std::uint64_t length = 1 + random() % 9000;
        const auto next = known.lower_bound(base);
        const bool fits =
            (next == known.end() || next->first - base >= length) &&
            (next == known.begin() || base - std::prev(next)->first >= std::prev(next)->second);
        ASSERT_EQ(map.insert(at(base, length)), fits);
        if (fits) known.emplace(base, length);
      }
      const std::uint64_t probe = base + random() % 9000;
      const auto after = known.upper_bound(probe);
      const bool inside =
          after != known.begin() && probe - std::prev(after)->first < std::prev(after)->second;
      const auto found = map.find(probe, 1);
      ASSERT_EQ(static_cast<bool>(found), inside);
      if (inside) {
        ASSERT_EQ(found->base, std::prev(after)->first);
      }
    }
    for (const auto& [base, length] : known) {
      const auto found = map.find(base + length - 1, 1);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->base, base);
    }
  }
}

}  // namespace
}  // namespace gaudi::device
