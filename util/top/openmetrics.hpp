// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "processes.hpp"

namespace gaudi::top {

/// All counters in the OpenMetrics text format, which Prometheus's older one can be read as too.
std::string openmetrics_of(const std::vector<process>& processes);

/// Puts a file in the place of another at once, so that nobody reads half of it. Throws
/// std::runtime_error, with what failed.
void replace_file(const std::string& path, const std::string& contents);

}  // namespace gaudi::top
