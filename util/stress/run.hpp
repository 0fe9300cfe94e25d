// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "options.hpp"

namespace gaudi::stress {

/// Has the workers do rounds until time is over or something is wrong. Prints a line a second and
/// the verdict. The program's exit status.
int run(const options& chosen);

}  // namespace gaudi::stress
