// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/copy_overrides.hpp"

#include <algorithm>

#include "base/number.hpp"

namespace gaudi::base {
namespace {

constexpr std::array<std::string_view, 3> direction_names{"h2d", "d2h", "d2d"};
constexpr std::size_t to_device = 0;
constexpr std::size_t within_device = 2;

/// Hands out what lies between separators, one after the other; false: one was refused.
template <class Take>
bool for_each_part(std::string_view text, char separator, Take&& take) {
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (!take(text.substr(0, end))) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool take_length(std::string_view text, bool may_be_off, std::optional<std::uint64_t>& into) {
  if (may_be_off && text == "off") {
    into = copy_override::never;
    return true;
  }
  into = parse_number(text);
  return into && *into >= copy_override::least && *into <= copy_override::most;
}

bool take_limit(std::string_view text, std::optional<std::uint64_t>& into) {
  if (text != "off") return take_length(text, false, into);
  into = 0;
  return true;
}

bool take_setting(std::string_view text, std::size_t which, copy_override& into) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  const bool with_host = which != within_device;
  if (name == "split") return take_length(value, true, into.split);
  if (name == "pin" && with_host) return take_length(value, true, into.pin);
  if (name == "nic" && which == to_device) return take_limit(value, into.nic);
  return name == "chunk" && with_host && take_length(value, false, into.chunk);
}

bool take_direction(std::string_view text, copy_overrides& into) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto known =
      std::find(direction_names.begin(), direction_names.end(), text.substr(0, colon));
  if (known == direction_names.end() || colon == text.size()) return false;
  const auto which = static_cast<std::size_t>(known - direction_names.begin());
  return for_each_part(text.substr(colon + 1), ',', [&](std::string_view setting) {
    return take_setting(setting, which, into.directions.at(which));
  });
}

}  // namespace

std::optional<copy_overrides> copy_overrides::parse(std::string_view text) {
  copy_overrides parsed;
  const bool good = for_each_part(text, ';', [&](std::string_view part) {
    if (part == "auto") return true;
    if (part != "off") return take_direction(part, parsed);
    parsed.calibrate = false;
    return true;
  });
  if (!good) return std::nullopt;
  return parsed;
}

}  // namespace gaudi::base
