// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ledger.hpp"

#include <gtest/gtest.h>

namespace gaudi::stress {
namespace {

TEST(ledger, is_balanced_where_each_received_what_was_sent) {
  ledger books;
  books.add(0, {.to = {{1, 5}, {2, 1}}, .from = {{1, 2}}});
  books.add(1, {.to = {{0, 2}}, .from = {{0, 5}}});
  books.add(2, {.to = {}, .from = {{0, 1}}});
  EXPECT_EQ(books.find_imbalance(), std::nullopt);
}

TEST(ledger, names_who_missed_one) {
  ledger books;
  books.add(0, {.to = {{1, 5}}, .from = {}});
  books.add(1, {.to = {}, .from = {{0, 4}}});
  EXPECT_EQ(books.find_imbalance(), "UNBALANCED: worker 0 sent 5 to worker 1, which received 4");
}

TEST(ledger, names_who_received_what_nobody_sent) {
  ledger books;
  books.add(0, {});
  books.add(1, {.to = {}, .from = {{0, 1}}});
  EXPECT_EQ(books.find_imbalance(), "UNBALANCED: worker 0 sent 0 to worker 1, which received 1");
}

TEST(counts, is_balanced_when_each_posted_one_ended_once) {
  counts c;
  c.posted = 6;
  c.completed = 3;
  c.cancelled = 2;
  c.failed = 1;
  EXPECT_TRUE(c.is_balanced());
  ++c.completed;
  EXPECT_FALSE(c.is_balanced());
}

}  // namespace
}  // namespace gaudi::stress
