// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/operation_start.hpp"

#include <rdma/fi_errno.h>

namespace gaudi::proto {

operation_start start_operation(packet_channel& channel, transfer_table& table, connection& c,
                                const local_memory& memory, const completion_spec& completion,
                                transfer_role role) {
  buffer* const b = channel.acquire();
  transfer* const t = b ? table.create(&c, memory, completion) : nullptr;
  if (t) {
    t->role = role;
    table.records().begin(*t);
    return {b, t};
  }
  if (b) channel.release(*b);
  return {};
}

void abort_operation(packet_channel& channel, transfer_completion& completion,
                     const operation_start& start) {
  completion.free(*start.operation);
  channel.recycle(*start.message);
}

int why_nothing_left(const packet_channel& channel, const transfer_table& table) noexcept {
  const bool comes_back = channel.has_buffers_out() || table.size() != 0;
  return comes_back ? -FI_EAGAIN : -FI_ENOMEM;
}

}  // namespace gaudi::proto
