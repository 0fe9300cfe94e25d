// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/clock.hpp"

namespace gaudi::proto {

/// That a connection or a rail was lost, until it is up again: the link_reporter's.
struct link_loss {
  base::clock::time_point at{};
  bool is_told = false;    // somebody has heard of it
  bool is_warned = false;  // as of a warning
};

}  // namespace gaudi::proto
