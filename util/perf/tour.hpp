// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "options.hpp"

namespace gaudi::perf {

/// Starts a server and a client process, each on a Gaudi of its own, runs every operation over
/// every memory pair with every byte verified and prints one table. Returns the exit code. Must be
/// called before anything of libfabric is used, because it forks.
int run_tour(const options& chosen);

}  // namespace gaudi::perf
