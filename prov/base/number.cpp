// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/number.hpp"

#include <charconv>
#include <system_error>

namespace gaudi::base {
namespace {

std::optional<unsigned> suffix_shift(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix == "K" || suffix == "k") return 10;
  if (suffix == "M" || suffix == "m") return 20;
  if (suffix == "G" || suffix == "g") return 30;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{}) return std::nullopt;
  const auto shift = suffix_shift(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!shift || value > (UINT64_MAX >> *shift)) return std::nullopt;
  return value << *shift;
}

}  // namespace gaudi::base
