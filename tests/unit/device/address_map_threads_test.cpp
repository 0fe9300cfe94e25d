// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/address_map.hpp"

namespace gaudi::device {
namespace {

constexpr std::uint64_t base = 0x1001001800000000;

location range_of(std::uint64_t from, std::uint64_t length) {
  return {
      .base = from, .len = length, .map_base = base, .map_len = 1 << 30, .allocation_id = length};
}

TEST(address_map_between_threads, shows_no_half_a_change) {
  address_map map;
  // An allocation that never goes must be found at every moment; those around it come and go, and
  // an allocation's id is always its length, so a torn entry shows.
  ASSERT_TRUE(map.insert(range_of(base + (100U << 20), 77)));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!stop) {
        const auto fixed = map.find(base + (100U << 20) + 5, 10);
        if (!fixed || fixed->allocation_id != 77) ++wrong;
        const auto moving = map.find(base + (50U << 20), 1);
        if (moving && moving->allocation_id != moving->len) ++wrong;
      }
    });
  for (std::uint64_t round = 1; round < 300; ++round) {
    for (std::uint64_t i = 0; i < 100; ++i)
      ASSERT_TRUE(map.insert(range_of(base + (i << 20), round + i)));
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(map.erase(base + (i << 20)));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace gaudi::device
