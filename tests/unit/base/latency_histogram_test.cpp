// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/latency_histogram.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/counter_names.hpp"
#include "base/counters_page.hpp"

namespace gaudi::base::counters {
namespace {

constexpr std::size_t last = latency_histogram::bucket_count - 1;

TEST(latency_histogram, has_each_time_in_the_first_bucket_that_ends_there_or_later) {
  EXPECT_EQ(latency_histogram::bucket_for(0), 0U);
  for (std::size_t i = 0; i < last; ++i) {
    const std::uint64_t bound = latency_histogram::bound_of(i);
    EXPECT_EQ(latency_histogram::bucket_for(bound), i) << bound;
    EXPECT_EQ(latency_histogram::bucket_for(bound + 1), i + 1) << bound;
  }
  EXPECT_EQ(latency_histogram::bucket_for(UINT64_MAX), last);
}

TEST(latency_histogram, counts_and_adds) {
  latency_histogram h;
  for (const std::uint64_t took : {1000U, 1024U, 1025U}) h.add(took);
  EXPECT_EQ(h.count, 3U);
  EXPECT_EQ(h.sum, 3049U);
  EXPECT_EQ(h.buckets[10], 2U);
  EXPECT_EQ(h.buckets[11], 1U);
  EXPECT_EQ(std::accumulate(h.buckets.begin(), h.buckets.end(), std::uint64_t{0}), 3U);
}

TEST(latency_histogram, is_where_the_layout_has_it) {
  page p(true);
  const published<latency_histogram> of({block_kind::latency, "nic0", "verbs", 4}, p);
  EXPECT_EQ(value_count(block_kind::latency), 2 + latency_histogram::bucket_count);
  EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(&*of) + first_bucket, of->buckets.data());
}

// Of one NIC there is a block for each kind of operation, and none of them has the times of
// another.
TEST(latency_histogram, is_added_to_that_of_the_same_operations_when_it_is_closed) {
  page p(true);
  for (int i = 0; i < 3; ++i)
    for (const std::int32_t number : {0, 1}) {
      published<latency_histogram> of({block_kind::latency, "nic0", "verbs", number}, p);
      of->add(number == 0 ? 8 : 100);
    }
  block* const blocks = reinterpret_cast<block*>(
      reinterpret_cast<std::byte*>(const_cast<page_header*>(p.header())) + header_size);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(blocks[i].head.number, static_cast<std::int32_t>(i));
    EXPECT_EQ(blocks[i].head.state, block_state::closed);
    EXPECT_EQ(blocks[i].values[0], 3U);
    EXPECT_EQ(blocks[i].values[1], i == 0 ? 24U : 300U);
  }
  EXPECT_EQ(blocks[2].head.kind, block_kind::none);
}

}  // namespace
}  // namespace gaudi::base::counters
