// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "common/oob.hpp"
#include "options.hpp"

namespace gaudi::stress {

/// The first words of the two sides: both need the same release, because each worker makes the plan
/// of a round for itself. Anything else is a failure.

/// The server's: what the client asks for, with the number of its workers.
options welcome(common::oob_channel& client, unsigned own_workers);

/// The client's: the number of its first worker, which is that of the server's workers.
unsigned introduce(common::oob_channel& server, const options& work);

}  // namespace gaudi::stress
