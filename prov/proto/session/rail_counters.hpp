// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::proto {

/// What one of the rails behind the first carries, for all peers of a domain's endpoints. In the
/// order of base/counter_names.hpp. Guarded by the domain lock.
struct rail_counters {
  std::uint64_t ops = 0;
  std::uint64_t bytes = 0;
  std::uint64_t made = 0;
  std::uint64_t lost = 0;
  std::uint64_t up = 0;  // now
  std::uint64_t flushes = 0;
};

}  // namespace gaudi::proto
