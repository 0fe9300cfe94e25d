// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "saved_run.hpp"

namespace gaudi::perf {

/// gnuplot's commands for one SVG with the runs' median latencies and bandwidths over the message
/// size.
std::string plot_script(const std::vector<plotted_run>& runs);

}  // namespace gaudi::perf
