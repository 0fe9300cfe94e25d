// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "rates.hpp"

namespace gaudi::top {

/// One document, in one line: of each process its domains and devices, what they have counted, and
/// of what grows how much a second.
std::string json_of(const sample& now, const changes& all, double unix_time);

}  // namespace gaudi::top
