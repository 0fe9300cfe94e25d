// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/latency.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace gaudi::common {
namespace {

TEST(latency, is_summed_up_whatever_the_order) {
  std::vector<double> times(200);
  std::iota(times.rbegin(), times.rend(), 1.0);
  const auto summary = summarise(times);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.median, 101);
  EXPECT_EQ(summary.mean, 100.5);
  EXPECT_EQ(summary.p99, 199);
  EXPECT_EQ(summary.max, 200);
}

TEST(latency, of_one_operation_is_its_time) {
  const auto summary = summarise({3.5});
  for (const double value : {summary.min, summary.median, summary.mean, summary.p99, summary.max})
    EXPECT_EQ(value, 3.5);
}

TEST(latency, of_no_operation_is_zero) {
  EXPECT_EQ(summarise({}).max, 0);
}

TEST(latency, goes_through_json) {
  const nlohmann::json j = latency_summary{.min = 1, .median = 2, .mean = 3, .p99 = 4, .max = 5};
  EXPECT_EQ(j.dump(), R"({"max":5.0,"mean":3.0,"median":2.0,"min":1.0,"p99":4.0})");
  const auto back = j.get<latency_summary>();
  EXPECT_EQ(nlohmann::json(back), j);
  EXPECT_THROW(nlohmann::json::parse(R"({"min": 1})").get<latency_summary>(),
               nlohmann::json::exception);
}

}  // namespace
}  // namespace gaudi::common
