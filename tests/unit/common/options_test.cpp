// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "common/memory_option.hpp"
#include "common/sizes.hpp"

namespace gaudi::common {
namespace {

TEST(memory_option, is_host_or_device) {
  EXPECT_FALSE(parse_memory("host").device);
  EXPECT_TRUE(parse_memory("device").device);
  EXPECT_EQ(parse_memory("device").gaudi, std::nullopt);
  EXPECT_EQ(parse_memory("device:0000:19:00.0").gaudi, "0000:19:00.0");
  EXPECT_TRUE(parse_memory("device:module:3").device);
}

TEST(memory_option, is_nothing_else) {
  for (const char* wrong : {"", "gpu", "device:", "devices", "device0", "hosts", "DEVICE"})
    EXPECT_THROW(parse_memory(wrong), CLI::ValidationError) << wrong;
}

TEST(sizes, are_the_powers_of_two_to_64_mib) {
  const auto sizes = all_sizes();
  ASSERT_EQ(sizes.size(), 27U);
  EXPECT_EQ(sizes.front(), 1U);
  EXPECT_EQ(sizes.back(), 64 * mib);
}

TEST(sizes, have_the_largest_unit_that_is_whole) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1000), "1000 B");
  EXPECT_EQ(size_text(kib), "1 KiB");
  EXPECT_EQ(size_text(mib + kib), "1025 KiB");
  EXPECT_EQ(size_text(64 * mib), "64 MiB");
  EXPECT_EQ(size_text(mib + 1), "1048577 B");
}

}  // namespace
}  // namespace gaudi::common
