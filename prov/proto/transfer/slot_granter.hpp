// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/staging_pool.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/transfer/cts.hpp"
#include "proto/transfer/grant_queue.hpp"
#include "proto/transfer/pipeline_planner.hpp"

namespace gaudi::proto {

/// Staging slots of ours, which sources fill and our devices empty: which transfer is given them.
/// Of each connection the oldest that wants some comes first, and connections take turns. One that
/// needs a slot no more does not keep it until its own end: the next one's data is on its way by
/// then.
///
/// Not thread safe: the caller holds the domain lock.
class slot_granter {
 public:
  slot_granter(core::inner_domain& core, const endpoint_settings& config,
               connection_manager& connections, packet_channel& channel,
               const pipeline_planner& planner);

  /// The transfer, a sink, gets its data through slots, from now on or when some come back. False:
  /// none will.
  [[nodiscard]] bool grant(transfer& t);
  /// The same for one that read its source so far, and may no more. It begins again: nothing of it
  /// is in flight.
  [[nodiscard]] bool grant_instead(transfer& t);
  /// The slot is empty, and the transfer goes on: another chunk may come into it, or it is given to
  /// others.
  void reuse(transfer& t, buffer& slot);
  /// The transfer wants none any more, and what it has goes to others.
  void take_back(transfer& t) {
    if (t.slots.granted.held() != 0 || t.slots.are_wanted) take_back_all(t);
  }

  /// As buffer_pool::free_all.
  void free_buffers() noexcept { slots_.free_all(); }

 private:
  friend struct endpoint_audit;  // tests/sim

  void hand_out(const shared_slots* of);
  bool grant_more(transfer& t);
  void take_back_all(transfer& t);

  connection_manager& connections_;
  packet_channel& channel_;
  const pipeline_planner& planner_;
  staging_pool slots_;
  grant_queue grant_queue_;
};

}  // namespace gaudi::proto
