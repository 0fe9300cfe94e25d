// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "endpoint.hpp"

namespace gaudi::perf {

/// Bytes that went each way, as the provider counts them (fi_gaudi_ops.path_stats). Each transfer
/// is counted at one of its ends, so the two sides' counts are added.
struct path_bytes {
  std::uint64_t eager = 0;
  std::uint64_t direct = 0;
  std::uint64_t cma = 0;
  std::uint64_t staged = 0;

  path_bytes& operator+=(const path_bytes& other);
  path_bytes operator-(const path_bytes& other) const;
};

void to_json(nlohmann::json& j, const path_bytes& bytes);
void from_json(const nlohmann::json& j, path_bytes& bytes);

/// All zero where the provider does not count.
path_bytes count_paths(endpoint& ep);

/// "eager", "zero-copy", "cma", "staged", several joined by "+", or nothing. A way that took
/// less than a hundredth of the bytes is left out: acknowledgements are messages too.
std::string path_of(const path_bytes& bytes);

}  // namespace gaudi::perf
