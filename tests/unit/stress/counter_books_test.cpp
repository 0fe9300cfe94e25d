// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counter_books.hpp"

#include <gtest/gtest.h>

namespace gaudi::stress {
namespace {

using verdict = counter_books::verdict;

constexpr std::size_t send = 0;
constexpr std::size_t receive = 1;
constexpr counter_values before{{{10, 1}, {20, 2}, {30, 3}, {40, 4}}};

counter_values with(std::size_t kind, std::uint64_t succeeded, std::uint64_t failed) {
  counter_values now = before;
  now.at(kind).succeeded += succeeded;
  now.at(kind).failed += failed;
  return now;
}

TEST(counter_books, balance_when_the_counters_count_what_ended) {
  counter_books books(before);
  EXPECT_EQ(books.compare(before, false), verdict::balanced);
  books.add(counted_kind::receive, true);
  books.add(counted_kind::receive, true);
  books.add(counted_kind::receive, false);
  EXPECT_EQ(books.total(), 3U);
  EXPECT_EQ(books.compare(with(receive, 2, 1), false), verdict::balanced);
  EXPECT_EQ(books.find_imbalance(with(receive, 2, 1), false), std::nullopt);
}

TEST(counter_books, wait_for_what_is_not_counted_yet) {
  counter_books books(before);
  books.add(counted_kind::receive, true);
  EXPECT_EQ(books.compare(before, false), verdict::late);
  const auto said = books.find_imbalance(before, false);
  ASSERT_TRUE(said);
  EXPECT_NE(said->find("FI_RECV"), std::string::npos) << *said;
}

TEST(counter_books, do_not_wait_for_what_cannot_become_right) {
  counter_books books(before);
  books.add(counted_kind::receive, true);
  EXPECT_EQ(books.compare(with(receive, 2, 0), false), verdict::wrong) << "one too many";
  EXPECT_EQ(books.compare(with(receive, 0, 1), false), verdict::wrong) << "it did not fail";
  EXPECT_EQ(books.compare(with(send, 1, 0), false), verdict::wrong) << "another kind";
}

TEST(counter_books, let_what_was_injected_fail_only_with_a_loss) {
  counter_books books(before);
  books.add_injected();
  EXPECT_EQ(books.compare(before, false), verdict::late);
  EXPECT_EQ(books.compare(with(send, 1, 0), false), verdict::balanced);
  EXPECT_EQ(books.compare(with(send, 0, 1), false), verdict::wrong);
  EXPECT_EQ(books.compare(with(send, 0, 1), true), verdict::balanced);
  EXPECT_EQ(books.compare(with(send, 1, 1), true), verdict::wrong) << "once, and no more";
}

TEST(counter_books, have_each_operation_under_its_kind) {
  EXPECT_EQ(counter_books::kind_of(operation::tinject), counted_kind::send);
  EXPECT_EQ(counter_books::kind_of(operation::writedata), counted_kind::write);
  EXPECT_EQ(counter_books::kind_of(operation::atomic), counted_kind::write);
  EXPECT_EQ(counter_books::kind_of(operation::read), counted_kind::read);
  EXPECT_EQ(counter_books::kind_of(operation::fetch), counted_kind::read);
  EXPECT_EQ(counter_books::kind_of(operation::compare), counted_kind::read);
}

}  // namespace
}  // namespace gaudi::stress
