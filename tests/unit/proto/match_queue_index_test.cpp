// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The table under the matching queue: when it grows, and when it must not.
#include <gtest/gtest.h>

#include <deque>

#include "proto/match/match_index.hpp"

namespace gaudi::proto {
namespace {

struct item {
  uint64_t tag = 0;
  fifo_link<item> link{};
};
match_key key_of(const item& i) noexcept {
  return {i.tag, 0};
}
using index = match_index<item, &item::link, &key_of, no_probe>;

TEST(match_queue_index, grows_with_the_keys_and_keeps_them) {
  index table;
  const std::size_t at_first = table.bucket_count();
  std::deque<item> items(10 * at_first);
  uint64_t tag = 0;
  for (item& i : items) {
    i.tag = tag++;
    table.push(i);
  }
  EXPECT_GE(table.bucket_count(), items.size());
  for (item& i : items) EXPECT_EQ(table.find(key_of(i)), &i);
}

TEST(match_queue_index, does_not_grow_with_items_of_one_key) {
  index table;
  const std::size_t at_first = table.bucket_count();
  std::deque<item> items(10 * at_first);
  for (item& i : items) table.push(i);
  EXPECT_EQ(table.bucket_count(), at_first);
}

TEST(match_queue_index, does_not_grow_with_keys_that_come_and_go) {
  index table;
  const std::size_t at_first = table.bucket_count();
  item passing;
  for (uint64_t tag = 0; tag != 10 * at_first; ++tag) {
    passing.tag = tag;
    table.push(passing);
    table.remove(passing);
  }
  EXPECT_EQ(table.bucket_count(), at_first);
}

TEST(match_queue_index, does_not_grow_up_to_what_was_reserved) {
  index table;
  table.reserve(1000);
  const std::size_t reserved = table.bucket_count();
  EXPECT_GE(reserved, 1000u);
  std::deque<item> items(1000);
  uint64_t tag = 0;
  for (item& i : items) {
    i.tag = tag++;
    table.push(i);
  }
  EXPECT_EQ(table.bucket_count(), reserved);
}

}  // namespace
}  // namespace gaudi::proto
