// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "context.hpp"

namespace hlsim {

/// Has this process, which has opened the device of the context, killed where it keeps it open for
/// too long after a reset, as the driver does (reference, section 2.5): see hlsim(7), HLSIM_KILL.
/// Nobody but the stand-in itself is there to do it, so a thread of the process looks whether it
/// has let go. It ends by itself soon after the context, and nobody joins it: a context may stay
/// until the process ends.
void watch_opener(const context_ref& of);

}  // namespace hlsim
