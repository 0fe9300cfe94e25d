// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>

#include "base/object_pool.hpp"
#include "base/probes.hpp"
#include "core/inner_domain.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/direct_op.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/transfer/transfer_flush.hpp"

namespace gaudi::proto {

/// RMA operations for which one operation of the core is all that it takes: the shortest way that
/// there is, with nothing to look after in between. Whatever takes more of them, or more than them,
/// is a transfer.
///
/// Not thread safe: the caller holds the domain lock.
class direct_rma {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    packet_channel& channel;
    transfer_flush& flush;
    path_counters& paths;
  };

  /// `shared_out_from`: rail_scheduler::threshold.
  direct_rma(const core::inner_domain& core, std::size_t shared_out_from,
             parts collaborators) noexcept
      : needs_descriptor_(core.needs_local_mr()),
        shared_out_from_(shared_out_from),
        parts_(collaborators) {}
  direct_rma(const direct_rma&) = delete;
  direct_rma& operator=(const direct_rma&) = delete;

  /// Begins it, where `memory` is one piece that the core knows, and the end of the core's
  /// operation is the end of the application's. 0: the end is told by the completion of `access`.
  /// -FI_EAGAIN: it is not for this, or there is no room in the core, or no memory.
  /// Inlined into the endpoint's call that posts it.
  [[gnu::always_inline]] int post(connection& c, const local_memory& memory,
                                  const rma_access& access, bool reads);

  /// The core has given it back.
  void ended(direct_op& op, int error) {
    if (op.on) finish(op, error);
    pool_.destroy(&op);
  }
  /// Gives it to the core again, which gave it back undone: core_transport::post.
  int post_again(direct_op& op) { return parts_.transport.post(*op.on, op, op.operation); }
  /// Something else does it, and tells of its end: the core has nothing of it any more.
  void leave(direct_op& op) {
    --op.on->at_core.direct;
    pool_.destroy(&op);
  }
  /// Devices have been lost: the application hears of what they had a part in.
  void end_lost();

  /// How many there are. What has failed with its connection counts until the core gives it back.
  [[nodiscard]] std::size_t count() const noexcept { return pool_.live(); }
  /// Calls visit(direct_op&) for each that the application waits for.
  template <class Visit>
  void for_each(Visit&& visit) {
    const auto visit_those_among = [&](posted_op_list& list) {
      for (posted_op& w : list) {
        if (w.what != posted_op::kind::direct) continue;
        if (auto& op = static_cast<direct_op&>(w); op.on) visit(op);
      }
    };
    parts_.connections.for_each([&](connection& c) {
      if (c.at_core.direct == 0) return;
      visit_those_among(c.at_core.posted);
      visit_those_among(c.session.undone);
      visit_those_among(c.session.to_redo);
    });
  }

 private:
  [[nodiscard]] bool is_one_operation(const local_memory& memory,
                                      const rma_access& access) const noexcept;
  [[nodiscard]] bool core_takes(const local_memory& memory, const void* descriptor,
                                bool reads) const noexcept;
  [[nodiscard]] bool keeps(const local_memory& memory) const noexcept;
  void count_posted(const local_memory& memory) noexcept;
  void finish(direct_op& op, int error);
  [[nodiscard]] int end_on_device(const direct_op& op);

  const bool needs_descriptor_;
  const std::size_t shared_out_from_;
  const parts parts_;
  base::object_pool<direct_op> pool_;
};

// A core that copies short messages reads them with the CPU when it sends.
inline bool direct_rma::core_takes(const local_memory& memory, const void* descriptor,
                                   bool reads) const noexcept {
  if (!memory.on_device()) [[likely]]
    return !needs_descriptor_ || descriptor;
  const bool inlined = !reads && memory.length() <= parts_.transport.limits().max_inlined;
  return !inlined && descriptor;
}

// The operation keeps what is injected. Longer than that, it leaves from a buffer.
inline bool direct_rma::keeps(const local_memory& memory) const noexcept {
  return !memory.on_device() && memory.length() <= direct_op::max_kept &&
         memory.length() <= parts_.transport.limits().max_inlined;
}

// Delivery to a device's memory is the peer's to see to.
inline bool direct_rma::is_one_operation(const local_memory& memory,
                                         const rma_access& access) const noexcept {
  const std::size_t length = memory.length();
  return memory.count() == 1 && length != 0 && length < shared_out_from_ &&
         length <= parts_.transport.limits().max_operation && !access.delivery;
}

inline int direct_rma::post(connection& c, const local_memory& memory, const rma_access& access,
                            bool reads) {
  if (!is_one_operation(memory, access)) return -FI_EAGAIN;
  const local_segment& s = memory[0];
  void* const descriptor = s.core_descriptor();
  const bool is_taken = access.inject ? keeps(memory) : core_takes(memory, descriptor, reads);
  direct_op* const op = is_taken ? pool_.create(c, s, descriptor, access, reads) : nullptr;
  if (!op) return -FI_EAGAIN;
  if (access.inject) [[unlikely]]
    op->keep_bytes(needs_descriptor_ ? FI_INJECT : 0);
  const int ret = parts_.transport.post(c, *op, op->operation);
  if (ret == -FI_EAGAIN) [[unlikely]] {
    pool_.destroy(op);
    return ret;
  }
  base::probes::transfer_start(op->name(), s.length);
  ++c.at_core.direct;
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

}  // namespace gaudi::proto
