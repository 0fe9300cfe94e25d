// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/latency.hpp"
#include "path_reasons.hpp"

namespace gaudi::perf {

/// What one pair of several gave meanwhile.
struct pair_rates {
  double megabytes_per_second = 0;
  double messages_per_second = 0;
  std::string path;
};

/// What one size gave, of all pairs together. Bandwidth in 10^6 bytes per second, both directions
/// together when bidirectional.
struct measurement {
  std::size_t size = 0;
  std::uint64_t iterations = 0;
  common::latency_summary latency;
  double megabytes_per_second = 0;
  double messages_per_second = 0;
  double of_one_piece = 0;      ///< with pages: their rate, by that of one piece of the same bytes
  double refused_per_page = 0;  ///< with pages: calls that ended with -FI_EAGAIN
  double longest_stall = 0;     ///< microseconds of a stream in which, at one end of a pair, no
                                ///< operation finished; 0: not timed
  std::string path;      ///< which way the bytes went; empty where the provider does not tell
  path_reasons reasons;  ///< why long messages went that way
  std::vector<pair_rates> pairs;  ///< empty with a single one
};

/// The slowest and the fastest pair, in 10^6 bytes per second; with a single one, that.
struct rate_range {
  double min = 0;
  double max = 0;
};
rate_range range_of_pairs(const measurement& m);

void to_json(nlohmann::json& j, const pair_rates& p);
void from_json(const nlohmann::json& j, pair_rates& p);
void to_json(nlohmann::json& j, const measurement& m);
void from_json(const nlohmann::json& j, measurement& m);

}  // namespace gaudi::perf
