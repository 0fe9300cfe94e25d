// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/direct_rma.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/probes.hpp"

namespace gaudi::proto {

inline void direct_rma::finish(direct_op& op, int error) {
  connection& c = *std::exchange(op.on, nullptr);
  --c.at_core.direct;
  if (op.owner && error == 0) [[unlikely]]
    error = end_on_device(op);
  if (op.has_data && error == 0 && c.goes_on()) [[unlikely]]
    parts_.channel.send_event(c, op.data, op.operation.length, op.operation.remote.address);
  base::probes::transfer_complete(op.name(), op.operation.length, error);
  op.completion.end({.error = error});
}

// What the NIC wrote to the device is there before the application is told.
int direct_rma::end_on_device(const direct_op& op) {
  if (const int gone = op.owner->lost()) return -gone;
  return op.operation.read ? parts_.flush.flush_own(*op.owner) : 0;
}

void direct_rma::end_lost() {
  for_each([this](direct_op& op) {
    if (op.owner && op.owner->lost() != 0) finish(op, -op.owner->lost());
  });
}

}  // namespace gaudi::proto
