// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gaudi::common {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

/// What --all asks for: every power of two from 1 B to 64 MiB.
std::vector<std::size_t> all_sizes();

/// "4 KiB", "1 MiB" where it is whole, else "70001 B".
std::string size_text(std::size_t bytes);

}  // namespace gaudi::common
