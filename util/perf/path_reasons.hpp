// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "endpoint.hpp"

namespace gaudi::perf {

struct path_reason {
  std::string text;  ///< for people
  std::uint64_t transfers = 0;
};

/// Why long messages went the way that they went, by the provider's names for the reasons
/// (fi_gaudi_ops.path_reasons). Each transfer is counted at its receiver, so the two sides' counts
/// are added.
using path_reasons = std::map<std::string, path_reason>;

void to_json(nlohmann::json& j, const path_reason& reason);
void from_json(const nlohmann::json& j, path_reason& reason);

/// Adds the endpoint's; nothing where the provider does not count.
void add_reasons(path_reasons& sum, endpoint& ep);
void add_reasons(path_reasons& sum, const path_reasons& more);

/// What came since: only reasons of some transfer.
path_reasons reasons_since(const path_reasons& before, path_reasons now);

/// Their names, joined by "+".
std::string names_of(const path_reasons& reasons);

}  // namespace gaudi::perf
