// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "device/device_list.hpp"

namespace gaudi::device {
namespace {

TEST(device_list, of_nothing_is_the_first_free_device) {
  const auto chosen = device_list::parse("");
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->listed.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<device_spec::first_free>(chosen->first().choice));
  EXPECT_FALSE(chosen->all);
}

TEST(device_list, takes_one_device) {
  const auto chosen = device_list::parse("module:3");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->listed.size(), 1U);
  EXPECT_EQ(std::get<device_spec::by_module>(chosen->first().choice).value, 3U);
}

TEST(device_list, keeps_the_order_of_a_mixed_list) {
  const auto chosen = device_list::parse("2,module:7,0000:9a:00.0,0");
  ASSERT_TRUE(chosen);
  ASSERT_EQ(chosen->listed.size(), 4U);
  EXPECT_EQ(std::get<device_spec::by_index>(chosen->listed[0].choice).value, 2);
  EXPECT_EQ(std::get<device_spec::by_module>(chosen->listed[1].choice).value, 7U);
  EXPECT_EQ(std::get<device_spec::by_bus_id>(chosen->listed[2].choice).value, "0000:9a:00.0");
  EXPECT_EQ(std::get<device_spec::by_index>(chosen->listed[3].choice).value, 0);
  EXPECT_EQ(std::get<device_spec::by_index>(chosen->first().choice).value, 2);
}

TEST(device_list, of_all_begins_with_the_lowest_index) {
  const auto chosen = device_list::parse("all");
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->all);
  EXPECT_TRUE(chosen->listed.empty());
  EXPECT_EQ(std::get<device_spec::by_index>(chosen->first().choice).value, 0);
}

class bad_selection : public testing::TestWithParam<const char*> {};

TEST_P(bad_selection, is_refused) {
  EXPECT_EQ(device_list::parse(GetParam()).code(), -FI_EINVAL);
}

INSTANTIATE_TEST_SUITE_P(texts, bad_selection,
                         testing::Values(",", "0,", ",0", "0,,1", "0, 1", "0,x", "all,0", "0,all",
                                         "ALL", "all,", "0;1"));

}  // namespace
}  // namespace gaudi::device
