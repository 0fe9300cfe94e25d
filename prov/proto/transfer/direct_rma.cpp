// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/direct_rma.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/probes.hpp"

namespace gaudi::proto {

// A core that copies short messages reads them with the CPU when it sends.
inline bool direct_rma::core_takes(const local_segment& s, const void* descriptor,
                                   bool reads) const noexcept {
  if (s.is_host()) [[likely]]
    return !needs_descriptor_ || descriptor;
  const bool inlined = !reads && s.length <= parts_.transport.inline_limit();
  return !inlined && descriptor;
}

// The operation keeps what is injected. Longer than that, it leaves from a buffer.
inline bool direct_rma::keeps(const local_segment& s) const noexcept {
  return s.is_host() && s.length <= direct_op::max_kept &&
         s.length <= parts_.transport.inline_limit();
}

// Delivery to a device's memory is the peer's to see to.
inline bool direct_rma::is_one_operation(const local_memory& memory,
                                         const rma_access& access) const noexcept {
  const std::size_t length = memory.length();
  return memory.count() == 1 && length != 0 && length < shared_out_from_ &&
         length <= parts_.transport.operation_limit() && !access.delivery;
}

int direct_rma::post(connection& c, const local_memory& memory, const rma_access& access,
                     bool reads) {
  if (!is_one_operation(memory, access)) return -FI_EAGAIN;
  const local_segment& s = memory[0];
  void* const descriptor = s.core_descriptor();
  const bool is_taken = access.inject ? keeps(s) : core_takes(s, descriptor, reads);
  direct_op* const op = is_taken ? pool_.create(c, s, descriptor, access, reads) : nullptr;
  if (!op) return -FI_EAGAIN;
  if (access.inject) [[unlikely]]
    op->keep_bytes(needs_descriptor_ ? FI_INJECT : 0);
  const int ret = parts_.transport.post(c, *op, op->operation);
  if (ret == -FI_EAGAIN) {
    pool_.destroy(op);
    return ret;
  }
  base::probes::transfer_start(op->name(), s.length);
  ++c.at_core.direct;
  c.closing.core_moved = true;
  if (!reads) c.closing.core_wrote = true;
  if (ret) [[unlikely]] {
    ended(*op, -ret);
    return 0;
  }
  base::probes::transfer_issue(op->name(), s.length, s.length);
  count_posted(memory);
  return 0;
}

inline void direct_rma::count_posted(const local_memory& memory) noexcept {
  ++parts_.paths.direct_ops;
  parts_.paths.direct_bytes += memory.length();
  if (!memory.on_device()) return;
  ++parts_.paths.zero_copy_ops;
  parts_.paths.zero_copy_bytes += memory.length();
  if (memory[0].owner) memory[0].owner->counted().zero_copy_bytes.add(memory.length());
}

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
