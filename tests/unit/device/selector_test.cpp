// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/selector.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

namespace gaudi::device {
namespace {

TEST(selector, empty_means_the_first_free_device) {
  const auto which = selector::parse("");
  ASSERT_TRUE(which);
  EXPECT_TRUE(std::holds_alternative<selector::first_free>(which->choice));
}

TEST(selector, takes_an_index) {
  const auto which = selector::parse("7");
  ASSERT_TRUE(which);
  EXPECT_EQ(std::get<selector::by_index>(which->choice).value, 7);
}

TEST(selector, takes_a_module_id) {
  const auto which = selector::parse("module:3");
  ASSERT_TRUE(which);
  EXPECT_EQ(std::get<selector::by_module>(which->choice).value, 3U);
}

TEST(selector, takes_a_pci_address_with_and_without_domain_in_any_case) {
  for (const char* text : {"0000:9a:00.0", "9A:00.0", "0000:9A:00.0"}) {
    const auto which = selector::parse(text);
    ASSERT_TRUE(which) << text;
    EXPECT_EQ(std::get<selector::by_bus_id>(which->choice).value, "0000:9a:00.0");
  }
}

class bad_selector : public testing::TestWithParam<const char*> {};

TEST_P(bad_selector, is_refused) {
  EXPECT_EQ(selector::parse(GetParam()).code(), -FI_EINVAL);
}

INSTANTIATE_TEST_SUITE_P(texts, bad_selector,
                         testing::Values("x", "-1", "1x", " 1", "256", "99999999999", "module:",
                                         "module:x", "module:-1", "0000:19:00", "0000:19:00.0 ",
                                         "0000:1g:00.0", "0000-19-00.0", "0000:19:00:0"));

}  // namespace
}  // namespace gaudi::device
