// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gaudi::copy {

/// Copies between two places in host memory that do not overlap, here and now.
inline void by_cpu(void* to, const void* from, std::size_t length) noexcept {
  std::memcpy(to, from, length);
}

}  // namespace gaudi::copy
