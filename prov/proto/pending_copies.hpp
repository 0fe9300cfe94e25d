// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/slot_table.hpp"
#include "ipc/joint_copy.hpp"

namespace gaudi::proto {

struct transfer;
struct work;

/// A copy between processes that has been made, and whose end nobody has been told yet.
struct local_copy {
  work* done;
  std::size_t length;
  int error;  // positive FI_E*
};

/// A copy of a peer's that it asked us to help with.
struct helping {
  base::slot_table<transfer>::id source;  // whose memory it copies
  ipc::joint_copy copy;
  std::uint64_t to;  // in the peer's memory
};

}  // namespace gaudi::proto
