// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/random_name_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace gaudi::base {
namespace {

/// Numbers of a seed, the first of them as told.
class seeded final : public random_source::source {
 public:
  explicit seeded(std::vector<std::uint64_t> first = {}) : first_(std::move(first)) {}
  std::uint64_t next() noexcept override { return at_ < first_.size() ? first_[at_++] : random_(); }

 private:
  std::vector<std::uint64_t> first_;
  std::size_t at_ = 0;
  std::mt19937_64 random_{7};
};

TEST(random_name_table, takes_its_names_from_the_source_but_for_those_that_have_no_place) {
  seeded numbers({0, 0x80000001, 0x90000001, 0x100000002});
  random_name_table<int> table{random_source(numbers)};
  int first = 0;
  int second = 0;
  EXPECT_EQ(table.insert(&first), 0x80000001U) << "0 is no name";
  EXPECT_EQ(table.insert(&second), 2U) << "the place of 0x90000001 is taken";
  EXPECT_EQ(table.find(0x80000001U), &first);
  EXPECT_EQ(table.find(2), &second);
  EXPECT_EQ(table.find(0x90000001U), nullptr);
  EXPECT_EQ(table.find(0), nullptr);
}

TEST(random_name_table, agrees_with_a_map_over_random_operations) {
  seeded numbers;
  std::mt19937 random(3);
  random_name_table<int> table{random_source(numbers)};
  std::vector<int> objects(64);
  std::map<std::uint32_t, int*> model;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 8 < 5 && model.size() < 3000) {
      int* const object = &objects[random() % objects.size()];
      const auto name = table.insert(object);
      ASSERT_TRUE(model.emplace(name, object).second);
    } else if (!model.empty()) {
      const auto gone = std::next(model.begin(), random() % std::min<std::size_t>(model.size(), 9));
      table.erase(gone->first);
      ASSERT_EQ(table.find(gone->first), nullptr);
      model.erase(gone);
    }
    ASSERT_EQ(table.size(), model.size());
  }
  for (const auto& [name, object] : model) ASSERT_EQ(table.find(name), object);
  std::size_t seen = 0;
  table.for_each([&](int&) { ++seen; });
  EXPECT_EQ(seen, model.size());
}

}  // namespace
}  // namespace gaudi::base
