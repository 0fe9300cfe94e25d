// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "measure.hpp"

#include <algorithm>

namespace gaudi::perf {

rate_range range_of_pairs(const measurement& m) {
  if (m.pairs.empty()) return {m.megabytes_per_second, m.megabytes_per_second};
  const auto slower = [](const pair_rates& a, const pair_rates& b) {
    return a.megabytes_per_second < b.megabytes_per_second;
  };
  const auto [min, max] = std::minmax_element(m.pairs.begin(), m.pairs.end(), slower);
  return {min->megabytes_per_second, max->megabytes_per_second};
}

void to_json(nlohmann::json& j, const pair_rates& p) {
  j = {{"megabytes_per_second", p.megabytes_per_second},
       {"messages_per_second", p.messages_per_second}};
  if (!p.path.empty()) j["path"] = p.path;
}

void from_json(const nlohmann::json& j, pair_rates& p) {
  j.at("megabytes_per_second").get_to(p.megabytes_per_second);
  j.at("messages_per_second").get_to(p.messages_per_second);
  p.path = j.value("path", "");
}

void to_json(nlohmann::json& j, const measurement& m) {
  j = {{"size", m.size},
       {"iterations", m.iterations},
       {"latency_us", m.latency},
       {"megabytes_per_second", m.megabytes_per_second},
       {"gigabits_per_second", m.megabytes_per_second * 8 / 1000},
       {"messages_per_second", m.messages_per_second}};
  if (m.of_one_piece != 0) {
    j["of_one_piece"] = m.of_one_piece;
    j["refused_per_page"] = m.refused_per_page;
  }
  if (m.longest_stall != 0) j["longest_stall_us"] = m.longest_stall;
  if (!m.path.empty()) j["path"] = m.path;
  if (!m.reasons.empty()) j["path_reasons"] = m.reasons;
  if (!m.pairs.empty()) j["pairs"] = m.pairs;
}

void from_json(const nlohmann::json& j, measurement& m) {
  j.at("size").get_to(m.size);
  j.at("iterations").get_to(m.iterations);
  j.at("latency_us").get_to(m.latency);
  j.at("megabytes_per_second").get_to(m.megabytes_per_second);
  j.at("messages_per_second").get_to(m.messages_per_second);
  m.of_one_piece = j.value("of_one_piece", 0.0);
  m.refused_per_page = j.value("refused_per_page", 0.0);
  m.longest_stall = j.value("longest_stall_us", 0.0);
  m.path = j.value("path", "");
  m.reasons = j.value("path_reasons", path_reasons());
  m.pairs = j.value("pairs", std::vector<pair_rates>());
}

}  // namespace gaudi::perf
