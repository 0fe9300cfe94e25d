// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/sizes.hpp"

#include <fmt/format.h>

namespace gaudi::common {

std::vector<std::size_t> all_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= 64 * mib; size *= 2) sizes.push_back(size);
  return sizes;
}

std::string size_text(std::size_t bytes) {
  if (bytes >= mib && bytes % mib == 0) return fmt::format("{} MiB", bytes / mib);
  if (bytes >= kib && bytes % kib == 0) return fmt::format("{} KiB", bytes / kib);
  return fmt::format("{} B", bytes);
}

}  // namespace gaudi::common
