// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/channel/core_transport.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/recovery/rail_connector.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "proto/transfer/write_fence.hpp"

namespace gaudi::proto {

/// What comes back from rails. What one of them had not done when it was lost is posted again, to
/// any that there is: a read as soon as this end is closed, a write once the peer's end is closed,
/// too, as it could arrive late otherwise, and be written over what has come since.
///
/// Not thread safe: the caller holds the domain lock.
class rail_recovery {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    data_mover& mover;
    rail_scheduler& scheduler;
    rail_connector& connector;
    write_fence& fences;
    path_counters& paths;
  };

  explicit rail_recovery(parts collaborators) noexcept : parts_(collaborators) {}

  /// RMA with posted_op::rail has come back. False: it was the connection's own, and is dealt with
  /// as any other now.
  [[nodiscard]] bool ended(posted_op& w, int error);
  /// Goes on with rails that are made, or lost.
  void progress();
  /// Ends what is kept with the error: the connection has failed, and core_transport knows.
  void connection_down(connection& c, int error);

 private:
  [[nodiscard]] bool keeps(connection& c, rail& r, posted_op& w);
  void fence_ended(connection& c, rail& r, fence_op& w, int error);
  void go_on_with_fences(connection& c);
  [[nodiscard]] bool redo_lost(connection& c);
  [[nodiscard]] bool redo(connection& c, rail& r);
  [[nodiscard]] int post_elsewhere(posted_op& w);

  const parts parts_;
};

}  // namespace gaudi::proto
