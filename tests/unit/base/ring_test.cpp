// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/ring.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace gaudi::base {
namespace {

template <class T>
bool push(ring<T>& r, const T& item) {
  T* const place = r.add();
  if (place) *place = item;
  return place;
}

TEST(ring, is_a_queue_whatever_its_first_capacity) {
  for (const std::size_t capacity : {0U, 1U, 2U, 3U, 64U}) {
    ring<int> r(capacity);
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(push(r, i));
    EXPECT_EQ(r.size(), 200U);
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(r.front(), i) << "first capacity " << capacity;
      r.pop();
    }
    EXPECT_TRUE(r.empty());
  }
}

TEST(ring, keeps_its_order_when_it_grows_in_the_middle_of_a_turn) {
  std::mt19937 random(3);
  ring<unsigned> r(4);
  std::deque<unsigned> model;
  for (unsigned i = 0; i < 100000; ++i) {
    if (random() % 5 < 3 || model.empty()) {
      EXPECT_TRUE(push(r, i));
      model.push_back(i);
    } else {
      ASSERT_EQ(r.front(), model.front());
      r.pop();
      model.pop_front();
    }
    ASSERT_EQ(r.size(), model.size());
  }
}

}  // namespace
}  // namespace gaudi::base
