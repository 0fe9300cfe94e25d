// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>

namespace gaudi::common {

/// What --memory chooses.
struct memory_option {
  bool device = false;               ///< false: host memory
  std::optional<std::string> gaudi;  ///< which, as FI_GAUDI_DEVICE takes it; nothing: not said
};

/// "host", "device" or "device:N"; all else is a CLI::ValidationError.
memory_option parse_memory(const std::string& text);

}  // namespace gaudi::common
