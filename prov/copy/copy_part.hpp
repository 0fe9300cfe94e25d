// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::copy {

/// A copy from one place to another, in the device's addresses.
struct copy_part {
  std::uint64_t dst = 0;
  std::uint64_t src = 0;
  std::uint64_t length = 0;  // bytes
};

}  // namespace gaudi::copy
