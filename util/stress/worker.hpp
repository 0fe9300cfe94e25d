// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "common/oob.hpp"

namespace gaudi::stress {

/// A worker's life: it gets the settings and its number from the parent, introduces itself, and
/// takes part in rounds until it is told to end. device: the number of its Gaudi among those that
/// FI_GAUDI_DEVICE lists, which are all where that is not set.
void work(common::oob_channel& parent, unsigned device);

}  // namespace gaudi::stress
