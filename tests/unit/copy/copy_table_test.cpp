// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/copy_table.hpp"

#include <gtest/gtest.h>

namespace gaudi::copy {
namespace {

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
constexpr pipeline_cost_model over_wire{
    .message_ns = 10'000, .exposed = 1, .busy_from = 2, .wait_ns = 10'000, .stages = 2};

copy_row measured(double bytes_per_ns) {
  copy_row row;
  row.bytes_per_ns = bytes_per_ns;
  row.latency_ns = 20'000;
  row.each_ns = 2'000;
  return row;
}

TEST(copy_table, has_the_users_word_on_top) {
  copy_table table;
  table.rows.fill(measured(5));
  table.apply(*base::copy_overrides::parse("h2d:pin=64K,chunk=256K,nic=8K;d2h:split=1M"));
  EXPECT_EQ(table[direction::host_to_device].pin, 64 * KiB);
  EXPECT_EQ(table[direction::host_to_device].chunk, 256 * KiB);
  EXPECT_EQ(table[direction::host_to_device].split, copy_row::never);
  EXPECT_EQ(table[direction::device_to_host].pin, copy_row{}.pin);
  EXPECT_EQ(table[direction::device_to_host].split, MiB);
  EXPECT_EQ(table[direction::device_to_host].chunk, 0U);
  EXPECT_DOUBLE_EQ(table[direction::device_to_host].bytes_per_ns, 5);
  EXPECT_EQ(table.nic, 8 * KiB);
  EXPECT_EQ(copy_table{}.nic, 64 * KiB);
}

TEST(copy_table, is_told_as_the_user_would_write_it) {
  copy_row row = measured(12.34);
  row.pin = 256 * KiB;
  EXPECT_EQ(to_text(row), "12.3 GB/s, 20.0 us alone, 2.0 us each, pin=256K, split=off, chunk=auto");
  row = {};
  row.split = MiB;
  row.chunk = 5000;
  EXPECT_EQ(to_text(row), "not measured, pin=4M, split=1M, chunk=5000");
  EXPECT_EQ(limit_text(0), "off");
  EXPECT_EQ(limit_text(16 * KiB), "16K");
}

TEST(copy_table, parts_are_whole_pages_and_no_more_than_queues) {
  copy_row row;
  EXPECT_EQ(part_length(row, 100 * MiB), 100 * MiB);
  row.split = MiB;
  EXPECT_EQ(part_length(row, MiB - 1), MiB - 1);
  for (const std::uint64_t length : {MiB, MiB + 1, 7 * MiB - 3, 100 * MiB}) {
    const std::uint64_t part = part_length(row, length);
    EXPECT_EQ(part % 4096, 0U);
    EXPECT_LE((length + part - 1) / part, 4U);
    EXPECT_GE((length + part - 1) / part, 3U);
  }
}

TEST(best_chunk, takes_the_least_time_of_all_chunks) {
  for (const double rate : {1.0, 5.0}) {
    const copy_row row = measured(rate);
    for (const std::uint64_t length : {4 * MiB, 64 * MiB}) {
      const auto time = [&](std::uint64_t chunk) {
        const auto c = static_cast<double>(chunk);
        return static_cast<double>(length) / c * (row.each_ns + over_wire.message_ns) +
               over_wire.stages * c / rate;
      };
      const std::uint64_t best = best_chunk(row, length, over_wire);
      EXPECT_LE(time(best), time(best / 2));
      EXPECT_LE(time(best), time(best * 2));
      EXPECT_LE(time(best), time(best + best / 8));
      EXPECT_LE(time(best), time(best - best / 8));
    }
  }
}

TEST(best_chunk, leaves_the_cpu_the_time_for_each) {
  const copy_row row = measured(50);  // 12 us of the CPU are 600 KB
  EXPECT_NEAR(static_cast<double>(best_chunk(row, 4 * MiB, over_wire)), 1.8e6, 1e3);
  pipeline_cost_model hidden = over_wire;
  hidden.exposed = 0;
  EXPECT_NEAR(static_cast<double>(best_chunk(measured(1), 64 * MiB, hidden)), 36e3, 10);
}

TEST(best_chunk, is_shorter_where_slow_copies_hide_the_cpus_time) {
  pipeline_cost_model hidden = over_wire;
  hidden.exposed = 0.25;
  const auto slow = measured(1.9);
  EXPECT_NEAR(static_cast<double>(best_chunk(slow, 64 * MiB, hidden)),
              static_cast<double>(best_chunk(slow, 64 * MiB, over_wire)) / 2, 1);
  const auto fast = measured(2);
  EXPECT_EQ(best_chunk(fast, 64 * MiB, hidden), best_chunk(fast, 64 * MiB, over_wire));
}

TEST(best_chunk, is_the_users_or_unknown_without_measurements) {
  EXPECT_EQ(best_chunk(copy_row{}, MiB, over_wire), 0U);
  copy_row fixed = measured(5);
  fixed.chunk = 12345;
  EXPECT_EQ(best_chunk(fixed, MiB, over_wire), 12345U);
}

TEST(best_depth, grows_with_what_a_chunk_does_not_hide) {
  EXPECT_EQ(best_depth(copy_row{}, MiB, over_wire), 0U);
  EXPECT_EQ(best_depth(measured(1), MiB, over_wire), 7U);          // 30 us are 30 KB
  EXPECT_EQ(best_depth(measured(50), 256 * KiB, over_wire), 12U);  // 30 us are 1.5 MB
  pipeline_cost_model shorter = over_wire;
  shorter.stages = 1;
  EXPECT_EQ(best_depth(measured(1), MiB, shorter), 5U);
}

}  // namespace
}  // namespace gaudi::copy
