// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

namespace gaudi::common {

/// Times of single operations in microseconds.
struct latency_summary {
  double min = 0;
  double median = 0;
  double mean = 0;
  double p99 = 0;
  double max = 0;
};

/// All zero where there was no operation.
latency_summary summarise(std::vector<double> microseconds);

void to_json(nlohmann::json& j, const latency_summary& l);
void from_json(const nlohmann::json& j, latency_summary& l);

/// Runs from its making on.
class stopwatch {
 public:
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(clock::now() - start_).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

}  // namespace gaudi::common
