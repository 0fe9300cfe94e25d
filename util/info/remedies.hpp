// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "verdict.hpp"

namespace gaudi::info {

/// What to type about a verdict: the remedy itself where a command is one, else what shows more.
/// `name` is the PCI address, the process or the variable that it is about.
std::vector<std::string> commands_for(cause what, const std::string& name);

}  // namespace gaudi::info
