// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "sim/plan.hpp"

namespace gaudi::sim {

/// A plan with as little in it as still fails. `whole` fails.
plan shrink(const plan& whole);

/// What the plan does, how it fails, and a sequence diagram of that.
std::string describe(const plan& p);

}  // namespace gaudi::sim
