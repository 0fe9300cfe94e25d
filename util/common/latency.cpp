// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/latency.hpp"

#include <algorithm>
#include <numeric>

namespace gaudi::common {

latency_summary summarise(std::vector<double> microseconds) {
  if (microseconds.empty()) return {};
  std::sort(microseconds.begin(), microseconds.end());
  const std::size_t count = microseconds.size();
  const double sum = std::accumulate(microseconds.begin(), microseconds.end(), 0.0);
  return {.min = microseconds.front(),
          .median = microseconds[count / 2],
          .mean = sum / static_cast<double>(count),
          .p99 = microseconds[std::min(count - 1, count * 99 / 100)],
          .max = microseconds.back()};
}

void to_json(nlohmann::json& j, const latency_summary& l) {
  j = {{"min", l.min}, {"median", l.median}, {"mean", l.mean}, {"p99", l.p99}, {"max", l.max}};
}

void from_json(const nlohmann::json& j, latency_summary& l) {
  j.at("min").get_to(l.min);
  j.at("median").get_to(l.median);
  j.at("mean").get_to(l.mean);
  j.at("p99").get_to(l.p99);
  j.at("max").get_to(l.max);
}

}  // namespace gaudi::common
