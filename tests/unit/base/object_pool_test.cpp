// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/object_pool.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gaudi::base {
namespace {

struct counted {
  explicit counted(int v) : value(v) { ++alive; }
  ~counted() { --alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  alignas(64) int value;
  static inline int alive = 0;
};

TEST(object_pool, gives_each_object_a_place_of_its_own_and_recycles_it) {
  object_pool<counted> pool;
  std::set<counted*> places;
  for (int i = 0; i < 1000; ++i) {
    counted* object = pool.create(i);
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(object->value, i);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % alignof(counted), 0U);
    EXPECT_TRUE(places.insert(object).second);
  }
  EXPECT_EQ(counted::alive, 1000);
  for (counted* object : places) pool.destroy(object);
  EXPECT_EQ(counted::alive, 0);
  for (int i = 0; i < 1000; ++i) {
    counted* object = pool.create(i);
    EXPECT_TRUE(places.contains(object));
    pool.destroy(object);
  }
}

}  // namespace
}  // namespace gaudi::base
