// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/connection/connection_manager.hpp"

namespace gaudi::proto {

/// Which connections can be closed, and are missed least: those on which nothing was sent or has
/// come for the longest, as far as looks at them tell, so that an operation pays nothing for it.
///
/// Not thread safe: the caller holds the domain lock.
class connection_lru {
 public:
  /// At most so many that are idle, the least used first. Throws std::bad_alloc.
  [[nodiscard]] std::vector<connection*> choose(connection_manager& connections, std::size_t count);

 private:
  std::uint64_t round_ = 0;  // of looks
};

}  // namespace gaudi::proto
