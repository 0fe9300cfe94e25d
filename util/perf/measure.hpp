// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gaudi::perf {

/// Times of single operations in microseconds.
struct latency_summary {
  double min = 0;
  double median = 0;
  double mean = 0;
  double p99 = 0;
  double max = 0;
};

latency_summary summarise(std::vector<double> microseconds);

/// What one size gave. Bandwidth in 10^6 bytes per second, both directions together when
/// bidirectional.
struct measurement {
  std::size_t size = 0;
  std::uint64_t iterations = 0;
  latency_summary latency;
  double megabytes_per_second = 0;
  double messages_per_second = 0;
  std::string path;  ///< which way the bytes went; empty where the provider does not tell
};

void to_json(nlohmann::json& j, const measurement& m);
void from_json(const nlohmann::json& j, measurement& m);

class stopwatch {
 public:
  double microseconds() const {
    return std::chrono::duration<double, std::micro>(clock::now() - start_).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

}  // namespace gaudi::perf
