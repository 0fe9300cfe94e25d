// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/make_room.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "scarce_memory.hpp"

namespace gaudi::base {
namespace {

TEST(make_room, is_for_one_more) {
  std::vector<int> v;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(make_room(v));
    ASSERT_GT(v.capacity(), v.size());
    const auto* const before = v.data();
    v.push_back(i);
    ASSERT_EQ(v.data(), before) << "it has not moved";
  }
}

TEST(make_room, changes_nothing_where_there_is_no_memory) {
  std::vector<int> v(1);
  v.shrink_to_fit();
  bool made = true;
  {
    const gaudi::test::scarce_memory none(0);
    made = make_room(v);
  }
  EXPECT_FALSE(made);
  EXPECT_EQ(v.capacity(), 1U);
  EXPECT_TRUE(make_room(v));
}

TEST(reserve_ahead, has_room_for_as_many_as_are_asked_for) {
  std::vector<int> v;
  for (std::size_t count = 1; count <= 100; ++count) {
    reserve_ahead(v, count);
    ASSERT_GE(v.capacity(), count);
  }
}

TEST(reserve_ahead, moves_what_grows_only_when_it_has_doubled) {
  std::vector<int> v;
  reserve_ahead(v, 8);
  EXPECT_EQ(v.capacity(), 16U);
  reserve_ahead(v, 16);
  EXPECT_EQ(v.capacity(), 16U) << "that is enough";
  reserve_ahead(v, 17);
  EXPECT_EQ(v.capacity(), 34U);
}

}  // namespace
}  // namespace gaudi::base
