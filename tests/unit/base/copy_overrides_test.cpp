// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/copy_overrides.hpp"

#include <gtest/gtest.h>

namespace gaudi::base {
namespace {

TEST(copy_overrides, of_auto_fix_nothing) {
  EXPECT_EQ(copy_overrides::parse("auto"), copy_overrides{});
  EXPECT_TRUE(copy_overrides::parse("auto")->calibrate);
}

TEST(copy_overrides, of_off_measure_nothing) {
  const auto parsed = copy_overrides::parse("off");
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->calibrate);
  EXPECT_EQ(parsed->directions, copy_overrides{}.directions);
}

TEST(copy_overrides, fix_what_they_name_and_nothing_else) {
  const auto parsed = copy_overrides::parse(
      "h2d:pin=64K,split=1M,chunk=256K,nic=16K;d2h:pin=off;off;d2d:split=5000");
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->calibrate);
  const auto& [h2d, d2h, d2d] = parsed->directions;
  EXPECT_EQ(h2d.pin, 64U << 10);
  EXPECT_EQ(h2d.split, 1U << 20);
  EXPECT_EQ(h2d.chunk, 256U << 10);
  EXPECT_EQ(h2d.nic, 16U << 10);
  EXPECT_EQ(&parsed->to_device(), &h2d);
  EXPECT_EQ(d2h, (copy_override{.pin = copy_override::never, .split = {}, .chunk = {}, .nic = {}}));
  EXPECT_EQ(d2d, (copy_override{.pin = {}, .split = 5000, .chunk = {}, .nic = {}}));
}

// The other lengths are those from which something is done, this one that up to which.
TEST(copy_overrides, of_nothing_for_the_nic_are_a_limit_of_zero) {
  EXPECT_EQ(copy_overrides::parse("h2d:nic=off")->to_device().nic, 0U);
  EXPECT_EQ(copy_overrides::parse("h2d:pin=off")->to_device().nic, std::nullopt);
}

class bad_copy_overrides : public testing::TestWithParam<const char*> {};

TEST_P(bad_copy_overrides, are_refused) {
  EXPECT_FALSE(copy_overrides::parse(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(texts, bad_copy_overrides,
                         testing::Values("", "on", "h2d", "h2d:", "h2d:pin",
                                         "h2d:pin=", "h2d:pin=x", "h2d:pin=64K,", "h2d:pin=64K;",
                                         ";h2d:pin=64K", "h2d:pin=4095", "h2d:pin=1025G",
                                         "h2d:chunk=off", "h2d:chunk=0", "d2d:pin=64K",
                                         "d2d:chunk=64K", "x2d:pin=64K", "h2d:pin=64K:split=1M",
                                         "h2d:pins=64K", "d2h:nic=64K", "d2d:nic=off", "h2d:nic=0",
                                         "h2d:nic", "h2d:pin=-1", "auto off", "H2D:pin=64K"));

}  // namespace
}  // namespace gaudi::base
