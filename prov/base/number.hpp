// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gaudi::base {

/// A decimal count with an optional suffix K, M or G (powers of 1024). Nothing: not one, or too
/// large for 64 bits.
std::optional<std::uint64_t> parse_number(std::string_view text);

}  // namespace gaudi::base
