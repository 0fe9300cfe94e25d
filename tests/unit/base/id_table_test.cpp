// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/id_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace gaudi::base {
namespace {

TEST(id_table, finds_what_was_inserted_and_nothing_else) {
  id_table<int> table;
  int a = 0;
  int b = 0;
  const auto name_a = table.insert(&a);
  const auto name_b = table.insert(&b);
  EXPECT_NE(name_a, name_b);
  EXPECT_EQ(table.find(name_a), &a);
  EXPECT_EQ(table.find(name_b), &b);
  EXPECT_EQ(table.find(id_table<int>::invalid), nullptr);
  EXPECT_EQ(table.find(name_a + 1000), nullptr);
  // A peer can send any 64 bits.
  EXPECT_EQ(table.find(name_a | (std::uint64_t{1} << 32)), nullptr);
  EXPECT_EQ(table.find(UINT64_MAX), nullptr);
}

TEST(id_table, a_stale_name_does_not_find_the_next_object_in_its_slot) {
  id_table<int> table;
  int first = 0;
  int second = 0;
  const auto stale = table.insert(&first);
  table.erase(stale);
  EXPECT_EQ(table.find(stale), nullptr);
  const auto fresh = table.insert(&second);
  EXPECT_NE(fresh, stale);
  EXPECT_EQ(table.find(stale), nullptr);
  EXPECT_EQ(table.find(fresh), &second);
}

TEST(id_table, no_name_is_ever_the_invalid_one) {
  id_table<int> table;
  int object = 0;
  for (int round = 0; round < 10000; ++round) {
    const auto name = table.insert(&object);
    ASSERT_NE(name, id_table<int>::invalid) << "round " << round;
    table.erase(name);
  }
}

TEST(id_table, agrees_with_a_map_over_random_operations) {
  std::mt19937 random(7);
  id_table<int> table;
  std::vector<int> objects(64);
  std::map<std::uint32_t, int*> model;
  std::vector<std::uint32_t> dead;
  for (int i = 0; i < 100000; ++i) {
    if (model.size() < objects.size() && random() % 2) {
      int* object = &objects[random() % objects.size()];
      model[table.insert(object)] = object;
    } else if (!model.empty()) {
      auto victim = model.begin();
      std::advance(victim, random() % model.size());
      table.erase(victim->first);
      // Names come back after 4095 rounds of a slot; the latest dead ones cannot have.
      dead.push_back(victim->first);
      if (dead.size() > 32) dead.erase(dead.begin());
      model.erase(victim);
    }
    ASSERT_EQ(table.size(), model.size());
    for (const auto& [name, object] : model) ASSERT_EQ(table.find(name), object);
    for (const auto name : dead) ASSERT_EQ(table.find(name), nullptr);
  }
}

TEST(id_table, visits_every_object_even_when_each_is_erased) {
  id_table<int> table;
  std::vector<int> objects(10);
  std::map<int*, std::uint32_t> names;
  for (int& object : objects) names[&object] = table.insert(&object);
  int visited = 0;
  table.for_each([&](int& object) {
    ++visited;
    table.erase(names[&object]);
  });
  EXPECT_EQ(visited, 10);
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace gaudi::base
