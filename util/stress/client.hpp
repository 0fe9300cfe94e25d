// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "run.hpp"

namespace gaudi::stress {

/// Has a server lead the run with the workers of both, and does for it what it asks for here. A
/// failure where the two cannot begin.
ending run_client(const options& chosen);

}  // namespace gaudi::stress
