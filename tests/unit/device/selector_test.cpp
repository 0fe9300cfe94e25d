// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "device/device_spec.hpp"

namespace gaudi::device {
namespace {

TEST(device_spec, empty_means_the_first_free_device) {
  const auto which = device_spec::parse("");
  ASSERT_TRUE(which);
  EXPECT_TRUE(std::holds_alternative<device_spec::first_free>(which->choice));
}

TEST(device_spec, takes_an_index) {
  const auto which = device_spec::parse("7");
  ASSERT_TRUE(which);
  EXPECT_EQ(std::get<device_spec::by_index>(which->choice).value, 7);
}

TEST(device_spec, takes_a_module_id) {
  const auto which = device_spec::parse("module:3");
  ASSERT_TRUE(which);
  EXPECT_EQ(std::get<device_spec::by_module>(which->choice).value, 3U);
}

TEST(device_spec, names_what_it_selects) {
  EXPECT_EQ(device_spec::parse("")->describe(), "any device");
  EXPECT_EQ(device_spec::parse("7")->describe(), "device 7");
  EXPECT_EQ(device_spec::parse("module:3")->describe(), "module 3");
  EXPECT_EQ(device_spec::parse("9A:00.0")->describe(), "device 0000:9a:00.0");
}

TEST(device_spec, takes_a_pci_address_with_and_without_domain_in_any_case) {
  for (const char* text : {"0000:9a:00.0", "9A:00.0", "0000:9A:00.0"}) {
    const auto which = device_spec::parse(text);
    ASSERT_TRUE(which) << text;
    EXPECT_EQ(std::get<device_spec::by_bus_id>(which->choice).value, "0000:9a:00.0");
  }
}

class bad_selector : public testing::TestWithParam<const char*> {};

TEST_P(bad_selector, is_refused) {
  EXPECT_EQ(device_spec::parse(GetParam()).code(), -FI_EINVAL);
}

INSTANTIATE_TEST_SUITE_P(texts, bad_selector,
                         testing::Values("x", "-1", "1x", " 1", "256", "99999999999", "module:",
                                         "module:x", "module:-1", "0000:19:00", "0000:19:00.0 ",
                                         "0000:1g:00.0", "0000-19-00.0", "0000:19:00:0"));

}  // namespace
}  // namespace gaudi::device
