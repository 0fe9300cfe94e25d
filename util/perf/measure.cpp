// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "measure.hpp"

#include <algorithm>
#include <numeric>

namespace gaudi::perf {

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

void to_json(nlohmann::json& j, const measurement& m) {
  j = {{"size", m.size},
       {"iterations", m.iterations},
       {"latency_us",
        {{"min", m.latency.min},
         {"median", m.latency.median},
         {"mean", m.latency.mean},
         {"p99", m.latency.p99},
         {"max", m.latency.max}}},
       {"megabytes_per_second", m.megabytes_per_second},
       {"messages_per_second", m.messages_per_second}};
  if (!m.path.empty()) j["path"] = m.path;
}

void from_json(const nlohmann::json& j, measurement& m) {
  j.at("size").get_to(m.size);
  j.at("iterations").get_to(m.iterations);
  const auto& latency = j.at("latency_us");
  latency.at("min").get_to(m.latency.min);
  latency.at("median").get_to(m.latency.median);
  latency.at("mean").get_to(m.latency.mean);
  latency.at("p99").get_to(m.latency.p99);
  latency.at("max").get_to(m.latency.max);
  j.at("megabytes_per_second").get_to(m.megabytes_per_second);
  j.at("messages_per_second").get_to(m.messages_per_second);
  m.path = j.value("path", "");
}

}  // namespace gaudi::perf
