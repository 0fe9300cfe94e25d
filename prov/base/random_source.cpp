// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/random_source.hpp"

#include <sys/random.h>

#include <chrono>

namespace gaudi::base {

std::uint64_t random_source::from_kernel() noexcept {
  std::uint64_t value = 0;
  // Only a signal, or a kernel without the call, leaves us with the time.
  if (::getrandom(&value, sizeof value, 0) != sizeof value)
    value = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return value;
}

}  // namespace gaudi::base
