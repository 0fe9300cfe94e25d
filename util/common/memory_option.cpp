// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/memory_option.hpp"

#include <CLI/CLI.hpp>

namespace gaudi::common {

memory_option parse_memory(const std::string& text) {
  if (text == "host") return {};
  if (text == "device") return {.device = true, .gaudi = {}};
  const std::string named = "device:";
  if (!text.starts_with(named) || text == named)
    throw CLI::ValidationError("--memory", "expects host, device or device:N, not '" + text + "'");
  return {.device = true, .gaudi = text.substr(named.size())};
}

}  // namespace gaudi::common
