// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <string>

#include "mutant.hpp"

namespace {

// Tells the runtime of GoogleTest's cases.
class mutant_listener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { gaudi_test_begins(); }
  void OnTestEnd(const testing::TestInfo& info) override {
    gaudi_test_ended((std::string(info.test_suite_name()) + "." + info.name()).c_str());
  }
};

[[maybe_unused]] const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new mutant_listener);
  return true;
}();

}  // namespace
