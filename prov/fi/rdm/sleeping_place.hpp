// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/event_set.hpp"
#include "base/waker.hpp"

namespace gaudi::fi {

/// Where a thread sleeps until the core has something for the domain, or somebody rings. Move only.
///
/// Two descriptors, and no set of both: the kernel counts the ways from each socket of the core up
/// through all sets that hold sets, and adds no more sockets where there are 50 of four steps
/// (reverse_path_check in Linux' fs/eventpoll.c). A dozen counters of a domain were too many.
struct sleeping_place {
  int events;  // the domain's, which outlives it
  base::waker waker;

  /// As base::wait_for_any.
  bool wait(int timeout) const { return base::wait_for_any({events, waker.fd()}, timeout); }
};

}  // namespace gaudi::fi
