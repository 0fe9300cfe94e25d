// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "options.hpp"
#include "worker_pool.hpp"

namespace gaudi::stress {

/// How a run ended.
struct ending {
  std::string verdict;
  bool passed = false;
};

/// Has the workers of all sides do rounds until time is over, it is interrupted or something is
/// wrong. Prints a line a second on each side.
ending run(const options& chosen, std::vector<side> sides);

}  // namespace gaudi::stress
