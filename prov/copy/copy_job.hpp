// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::copy {

/// What copies are made for, such as a chunk of a transfer: has them counted, and hears of all
/// their ends at once. Who owns it lets it go only when none is under way.
struct copy_job {
  std::uint32_t copies = 0;  ///< under way
  int failed = 0;            ///< what the last of them that failed said: 0 or -FI_E*
};

}  // namespace gaudi::copy
