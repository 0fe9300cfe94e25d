// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Buffers that take many messages (FI_MULTI_RECV).
#include "proto/match/multi_receive.hpp"

#include <rdma/fi_endpoint.h>

namespace gaudi::proto {

bool multi_receive::operation_ended(cq_entry& entry) noexcept {
  if (--unfinished_ != 0 || !full_) return false;
  entry.flags |= FI_MULTI_RECV;
  give_back();
  return true;
}

}  // namespace gaudi::proto
