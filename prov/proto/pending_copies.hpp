// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/id_table.hpp"
#include "ipc/cooperative_copy.hpp"

namespace gaudi::proto {

struct transfer;
struct posted_op;

/// A copy between processes that has been made, and whose end nobody has been told yet.
struct local_copy {
  posted_op* done;
  std::size_t length;
  int error;  // positive FI_E*
};

/// A copy of a peer's that it asked us to help with.
struct pending_assist {
  base::id_table<transfer>::id source;  // whose memory it copies
  ipc::cooperative_copy copy;
  std::uint64_t to;  // in the peer's memory
};

}  // namespace gaudi::proto
