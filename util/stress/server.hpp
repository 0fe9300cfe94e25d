// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "run.hpp"

namespace gaudi::stress {

/// Waits for a client and leads the run that it asks for, with the workers of both. A failure where
/// the two cannot begin.
ending run_server(const options& chosen);

}  // namespace gaudi::stress
