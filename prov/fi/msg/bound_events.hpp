// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "fi/common/child_count.hpp"

namespace gaudi::fi {

/// Binds the event queue of the core's that is behind one of ours. `hold` keeps ours open. Throws
/// std::bad_alloc.
int bind_events(fid& core, fid_fabric* core_fabric, fid_t events, std::uint64_t flags,
                child_count::ref& hold);

}  // namespace gaudi::fi
