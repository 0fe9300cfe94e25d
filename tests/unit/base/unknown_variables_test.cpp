// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/unknown_variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

namespace {

using gaudi::base::unknown_variables;

std::pair<std::string, std::string> only(const char* entry) {
  const std::array<const char*, 2> environment{entry, nullptr};
  const auto found = unknown_variables(environment.data());
  if (found.size() != 1) return {std::to_string(found.size()) + " found", ""};
  return {found[0].name, found[0].nearest};
}

TEST(unknown_variables, are_not_parameters_or_others_variables) {
  const std::array environment{"FI_GAUDI_EAGER_SIZE=4096",
                               "FI_GAUDI_CORE=",
                               "FI_PROVIDER=gaudi",
                               "PATH=/bin",
                               "FI_GAUDI",
                               "GAUDI_EAGERSIZE=1",
                               static_cast<const char*>(nullptr)};
  EXPECT_TRUE(unknown_variables(environment.data()).empty());
  EXPECT_TRUE(unknown_variables(nullptr).empty());
}

TEST(unknown_variables, have_a_parameter_that_is_nearest) {
  using names = std::pair<std::string, std::string>;
  EXPECT_EQ(only("FI_GAUDI_EAGERSIZE=1"), names("FI_GAUDI_EAGERSIZE", "FI_GAUDI_EAGER_SIZE"));
  EXPECT_EQ(only("FI_GAUDI_DEVICES=0,1"), names("FI_GAUDI_DEVICES", "FI_GAUDI_DEVICE"));
  EXPECT_EQ(only("FI_GAUDI_DMA_BUF"), names("FI_GAUDI_DMA_BUF", "FI_GAUDI_DMABUF"));
  EXPECT_EQ(only("FI_GAUDI_rndv=read"), names("FI_GAUDI_rndv", "FI_GAUDI_RNDV"));
  EXPECT_EQ(only("FI_GAUDI_HLTUHNK=x"), names("FI_GAUDI_HLTUHNK", "FI_GAUDI_HLTHUNK"));
  EXPECT_EQ(only("FI_GAUDI_MR_CACHE_MAX_COUNTS=1").second, "FI_GAUDI_MR_CACHE_MAX_COUNT");
  EXPECT_EQ(only("FI_GAUDI_=1").first, "FI_GAUDI_");
}

TEST(unknown_variables, may_be_of_any_length) {
  const std::string entry = "FI_GAUDI_" + std::string(1 << 20, 'X') + "=1";
  EXPECT_EQ(only(entry.c_str()).first.size(), entry.size() - 2);
}

TEST(unknown_variables, are_found_beside_each_other) {
  const std::array environment{"FI_GAUDI_NICS=a", "FI_GAUDI_NIC=b", "FI_GAUDI_COER=tcp",
                               static_cast<const char*>(nullptr)};
  const auto found = unknown_variables(environment.data());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].nearest, "FI_GAUDI_NIC");
  EXPECT_EQ(found[1].nearest, "FI_GAUDI_CORE");
}

}  // namespace
