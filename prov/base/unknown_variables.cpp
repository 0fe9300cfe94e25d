// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/unknown_variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "base/params.hpp"

namespace gaudi::base {
namespace {

constexpr std::string_view prefix = "FI_GAUDI_";
// Longer names are not compared: the environment is anybody's, and the comparison is quadratic.
constexpr std::size_t max_length = 128;

bool is_same_letter(char a, char b) {
  return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
}

/// Letters to insert, remove or replace to make one of the other (Levenshtein's distance).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (is_same_letter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest_to(std::string_view name) {
  std::string nearest;
  std::size_t fewest = 0;
  for (const auto& spec : param_table) {
    std::string candidate = variable_name(spec);
    const std::size_t edits = edits_between(name.substr(0, max_length), candidate);
    if (!nearest.empty() && edits >= fewest) continue;
    fewest = edits;
    nearest = std::move(candidate);
  }
  return nearest;
}

bool is_parameter(std::string_view name) {
  return std::any_of(param_table.begin(), param_table.end(),
                     [&](const param_spec& spec) { return variable_name(spec) == name; });
}

}  // namespace

std::vector<unknown_variable> unknown_variables(const char* const* environment) {
  std::vector<unknown_variable> found;
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(prefix) || is_parameter(name)) continue;
    found.push_back({.name = std::string(name), .nearest = nearest_to(name)});
  }
  return found;
}

void warn_of_unknown_variables() {
  for (const auto& [name, nearest] : unknown_variables(environ))
    GAUDI_WARN(CORE, "%s is no parameter and is ignored: did you mean %s? (fi_info -g gaudi)\n",
               name.c_str(), nearest.c_str());
}

}  // namespace gaudi::base
