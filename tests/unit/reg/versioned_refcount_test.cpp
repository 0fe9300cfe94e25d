// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Users of what begins and ends to be a registration, counted in one word.
#include "reg/versioned_refcount.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace gaudi::reg {
namespace {

using word = std::uint64_t;

class users_of_a_registration : public testing::Test {
 protected:
  /// Who saw this counts itself in, if it may. An exchange may fail for no reason.
  bool enter(word seen) {
    const word before = seen;
    while (seen == before)
      if (uses_.enter(seen)) return true;
    return false;
  }
  /// Begins it and has its first user leave: the word of one that nobody uses.
  word begin_unused() {
    uses_.begin();
    return uses_.leave();
  }

  versioned_refcount uses_;
};

TEST_F(users_of_a_registration, are_none_before_it_begins) {
  EXPECT_FALSE(versioned_refcount::lives(uses_.load()));
  EXPECT_FALSE(versioned_refcount::is_used(uses_.load()));
  EXPECT_FALSE(uses_.is_idle()) << "there is nothing to be idle";
}

TEST_F(users_of_a_registration, begin_with_one) {
  uses_.begin();
  EXPECT_TRUE(versioned_refcount::lives(uses_.load()));
  EXPECT_TRUE(versioned_refcount::is_used(uses_.load()));
  EXPECT_FALSE(uses_.is_idle());
  const word left = uses_.leave();
  EXPECT_EQ(left, uses_.load());
  EXPECT_TRUE(versioned_refcount::lives(left));
  EXPECT_FALSE(versioned_refcount::is_used(left));
  EXPECT_TRUE(uses_.is_idle());
}

TEST_F(users_of_a_registration, are_counted_one_by_one) {
  const word unused = begin_unused();
  ASSERT_TRUE(enter(unused));
  const word one = uses_.load();
  ASSERT_TRUE(enter(one));
  EXPECT_EQ(uses_.leave(), one);
  EXPECT_TRUE(versioned_refcount::is_used(one));
  EXPECT_EQ(uses_.leave(), unused);
  EXPECT_TRUE(uses_.is_idle());
}

TEST_F(users_of_a_registration, are_told_the_word_that_they_did_not_expect) {
  const word unused = begin_unused();
  ASSERT_TRUE(enter(unused));
  word seen = unused;
  EXPECT_FALSE(uses_.enter(seen));
  EXPECT_EQ(seen, uses_.load());
  EXPECT_TRUE(enter(seen)) << "with which they may try again";
}

TEST_F(users_of_a_registration, keep_it_from_ending) {
  const word unused = begin_unused();
  ASSERT_TRUE(enter(unused));
  const word used = uses_.load();
  EXPECT_FALSE(uses_.end());
  EXPECT_EQ(uses_.load(), used);
  EXPECT_EQ(uses_.leave(), unused);
  EXPECT_TRUE(uses_.end());
  EXPECT_FALSE(versioned_refcount::lives(uses_.load()));
  EXPECT_FALSE(uses_.is_idle());
}

TEST_F(users_of_a_registration, who_saw_it_before_it_ended_do_not_come_too_late) {
  const word seen = begin_unused();
  ASSERT_TRUE(uses_.end());
  EXPECT_FALSE(enter(seen));
  EXPECT_FALSE(versioned_refcount::is_used(uses_.load()));
}

TEST_F(users_of_a_registration, who_saw_an_earlier_one_do_not_use_the_next) {
  const word unused = begin_unused();
  ASSERT_TRUE(enter(unused));
  const word used = uses_.load();
  static_cast<void>(uses_.leave());
  for (int later = 1; later <= 3; ++later) {
    ASSERT_TRUE(uses_.end());
    const word next = begin_unused();
    EXPECT_FALSE(enter(unused)) << later;
    EXPECT_EQ(uses_.load(), next) << later;
    ASSERT_TRUE(enter(next)) << later;
    EXPECT_FALSE(enter(used)) << "though there are as many as then, " << later;
    EXPECT_EQ(uses_.leave(), next) << later;
  }
}

// The word of the first registration without users has a one in the lowest bit above theirs.
TEST_F(users_of_a_registration, however_many_are_not_taken_for_another_beginning) {
  const word turn = begin_unused();
  ASSERT_TRUE(enter(turn));
  const word user = uses_.load() - turn;
  const word most = turn - user;
  EXPECT_GE(most / user, word{1} << 20) << "threads and their operations";
  EXPECT_TRUE(versioned_refcount::is_used(most));
  EXPECT_FALSE(versioned_refcount::lives(most));
  EXPECT_TRUE(versioned_refcount::is_used(turn + most));
  EXPECT_TRUE(versioned_refcount::lives(turn + most));
}

}  // namespace
}  // namespace gaudi::reg
