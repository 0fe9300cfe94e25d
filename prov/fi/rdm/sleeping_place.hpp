// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/event_set.hpp"
#include "base/waker.hpp"

namespace gaudi::fi {

/// Where a thread sleeps until the core has something for the domain, or somebody rings. Move only;
/// the set knows the waker.
struct sleeping_place {
  base::event_set set;
  base::waker waker;
};

}  // namespace gaudi::fi
