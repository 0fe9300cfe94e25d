// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether a NIC or the engine copies short messages to a device, by times that the test gives.
#include "copy/nic_copy_threshold.hpp"

#include <gtest/gtest.h>

namespace gaudi::copy {
namespace {

constexpr std::uint64_t KiB = 1024;

copy_row engine_of(double latency_ns, double bytes_per_ns = 10) {
  copy_row row;
  row.latency_ns = latency_ns;
  row.bytes_per_ns = bytes_per_ns;
  return row;
}

nic_copy_threshold limit_of(const char* table) {
  return nic_copy_threshold(*base::copy_overrides::parse(table));
}

/// The NIC copies as often as is asked for, and is judged then.
bool use(nic_copy_threshold& limit, std::uint64_t length, double ns, const copy_row& engine,
         bool flushes = false) {
  bool is_lower = false;
  unsigned copies = 0;
  while (limit.wants_time(length)) {
    const bool are_enough = limit.add_sample(length, ns);
    EXPECT_EQ(++copies == nic_copy_threshold::first_copies, are_enough);
    if (are_enough) is_lower = limit.update(length, engine, flushes);
  }
  return is_lower;
}

TEST(nic_copy_threshold, is_the_tables_until_something_was_timed) {
  EXPECT_EQ(limit_of("auto").limit(), 64 * KiB);
  EXPECT_EQ(limit_of("off").limit(), 64 * KiB);
  EXPECT_EQ(limit_of("h2d:nic=5000").limit(), 5000U);
  EXPECT_EQ(limit_of("h2d:nic=off").limit(), 0U);
}

TEST(nic_copy_threshold, stays_where_the_nic_is_sooner) {
  nic_copy_threshold limit = limit_of("auto");
  for (const std::uint64_t length : {1 * KiB, 4 * KiB, 16 * KiB, 64 * KiB})
    EXPECT_FALSE(use(limit, length, 3'000 + static_cast<double>(length) / 12, engine_of(20'000)));
  EXPECT_EQ(limit.limit(), 64 * KiB);
}

TEST(nic_copy_threshold, ends_below_the_lengths_for_which_the_engine_is_sooner) {
  nic_copy_threshold limit = limit_of("auto");
  EXPECT_FALSE(use(limit, 4 * KiB, 5'000, engine_of(10'000)));
  EXPECT_TRUE(use(limit, 12 * KiB, 20'000, engine_of(10'000)));  // 11.6 us
  EXPECT_EQ(limit.limit(), 8 * KiB);
  EXPECT_TRUE(use(limit, 8 * KiB, 20'000, engine_of(10'000)));
  EXPECT_EQ(limit.limit(), 4 * KiB);
  EXPECT_FALSE(limit.wants_time(32 * KiB)) << "nobody copies such any more";
}

TEST(nic_copy_threshold, is_nothing_where_the_engine_is_sooner_always) {
  nic_copy_threshold limit = limit_of("auto");
  EXPECT_TRUE(use(limit, 1, 100'000, engine_of(10'000)));
  EXPECT_EQ(limit.limit(), 0U);
}

TEST(nic_copy_threshold, counts_the_flush_as_another_short_copy) {
  nic_copy_threshold plain = limit_of("auto"), flushed = limit_of("auto");
  EXPECT_FALSE(use(plain, 4 * KiB, 8'000, engine_of(10'000)));
  EXPECT_TRUE(use(flushed, 4 * KiB, 8'000, engine_of(10'000), true));
  EXPECT_EQ(flushed.limit(), 0U);
}

TEST(nic_copy_threshold, takes_the_shortest_copy_of_all_for_the_flush) {
  nic_copy_threshold limit = limit_of("auto");
  EXPECT_FALSE(use(limit, 4 * KiB, 3'000, engine_of(10'000), true));
  EXPECT_FALSE(use(limit, 8 * KiB, 9'000, engine_of(10'000), true))
      << "12 us, the engine's are 10.8";
  EXPECT_TRUE(use(limit, 16 * KiB, 12'000, engine_of(10'000), true))
      << "15 us, the engine's are 11.6";
}

TEST(nic_copy_threshold, does_not_move_for_what_may_be_the_clocks_mood) {
  nic_copy_threshold limit = limit_of("auto");
  EXPECT_FALSE(use(limit, 4 * KiB, 11'000, engine_of(10'000)));
  // All but one of a busy machine's.
  nic_copy_threshold busy = limit_of("auto");
  for (unsigned i = 0; i + 1 < nic_copy_threshold::first_copies; ++i) busy.add_sample(KiB, 1e6);
  EXPECT_TRUE(busy.add_sample(KiB, 3'000));
  EXPECT_FALSE(busy.update(KiB, engine_of(10'000), false));
  EXPECT_EQ(busy.limit(), 64 * KiB);
}

TEST(nic_copy_threshold, times_nothing_where_nothing_is_to_be_found_out) {
  for (const char* table : {"off", "h2d:nic=64K", "h2d:nic=off"})
    EXPECT_FALSE(limit_of(table).wants_time(KiB)) << table;
  nic_copy_threshold limit = limit_of("auto");
  EXPECT_FALSE(use(limit, KiB, 1e6, copy_row{})) << "of the engine nothing is known";
  EXPECT_EQ(limit.limit(), 64 * KiB);
  EXPECT_FALSE(limit.wants_time(KiB)) << "judged once";
}

}  // namespace
}  // namespace gaudi::copy
