// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>

#include "base/alarm_fd.hpp"
#include "base/clock.hpp"
#include "base/object_pool.hpp"
#include "base/params.hpp"
#include "base/result.hpp"
#include "core/tcp_streams.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/route.hpp"
#include "proto/recovery/way_home.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// Finds connections over RDMA that carry nothing any more, and takes them for lost, so that their
/// sessions go on over others. A NIC tells of that by itself only after all its retries: half a
/// minute with what the kernel sets (drivers/infiniband/core/cma.c, CMA_IBOE_PACKET_LIFETIME;
/// libfabric's verbs_cm.c, retry_count), or never (rxe_comp.c takes 7 retries for endless ones),
/// and of a queue pair with a shared receive queue that has failed here it tells nothing.
///
/// Nothing gets there where no operation ends that the core has. Where it has none, but what was
/// sent may not have arrived, or an operation waits for the peer, it gets one: a write of 0 bytes,
/// which needs nothing of the peer but its NIC. A rail needs none of those.
///
/// Over a stream the kernel finds all that out, but only of what it has to send: of a peer that has
/// gone while this end waited for its answer it hears nothing, for ever. So a connection on which
/// something waits for a silent peer sends a packet now and then, more and more seldom. And the
/// kernel takes a quarter of an hour to say so, but can be asked whether what it sends is
/// acknowledged (core::tcp_streams), where a rail, or another route of the session's, could carry
/// it: without one its patience is as good as ours. What is read over a rail the peer's end sends,
/// so the ends of the peer's rails are looked at, too.
///
/// Not thread safe: the caller holds the domain lock.
class link_watch {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    rail_scheduler& rails;
    const transfer_table& table;
    const direct_rma& direct;
    core::tcp_streams* streams;  // null: as if all were acknowledged
    session_routes routes;
  };

  /// `limits.link_timeout`: how long nothing may end, or a peer is silent until it is sent
  /// something; 0: for ever. Over RDMA nothing is watched without sessions, which alone could go
  /// on. `home_pause`: way_home's.
  link_watch(parts collaborators, const base::connection_limits& limits,
             std::chrono::milliseconds home_pause, base::clock clock) noexcept;

  /// What wakes a thread that sleeps, for it to look: a descriptor, or -1 where nothing is watched.
  /// Errors are base::alarm_fd::open's.
  base::result<int> open_alarm();

  void time_passed(base::clock::time_point now) noexcept {
    if (now >= next_) look(now);
  }
  /// Nobody looks until something comes, or the alarm does. `alarm_runs`: it has not come since it
  /// was set.
  void fall_asleep(bool alarm_runs) noexcept;
  /// A posted_op::kind::probe has come back.
  void ended(posted_op& probe, int error) noexcept;

 private:
  friend struct endpoint_audit;  // tests/sim
  void look(base::clock::time_point now) noexcept;
  void sleep_over_stream() noexcept;
  void look_at_stream(connection& c, base::clock::time_point now) noexcept;
  void look_at_rails_over_stream(connection& c, base::clock::time_point now) noexcept;
  [[nodiscard]] bool is_unacknowledged(fid_ep* ep) const noexcept;
  void look_at(connection& c, base::clock::time_point now) noexcept;
  void look_at(connection& c, rail& r) noexcept;
  void post_probe(connection& c) noexcept;
  [[nodiscard]] bool is_too_long(unsigned looks, const posted_op& first) const noexcept;

  const parts parts_;
  const bool is_stream_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;  // between looks, at least
  base::clock::time_point next_;
  way_home home_;
  base::object_pool<posted_op> probes_;
  base::alarm_fd alarm_;
  bool any_in_use_ = false;  // at the last look
  bool is_armed_ = false;    // the alarm, over a stream
};

}  // namespace gaudi::proto
