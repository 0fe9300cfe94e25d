// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/cooperative_copier.hpp"
#include "proto/data_mover.hpp"
#include "proto/direct_rma.hpp"
#include "proto/dmabuf_sharing.hpp"
#include "proto/immediate_copies.hpp"
#include "proto/link_reporter.hpp"
#include "proto/link_watch.hpp"
#include "proto/pipeline_planner.hpp"
#include "proto/rail_connector.hpp"
#include "proto/rail_keys.hpp"
#include "proto/rail_recovery.hpp"
#include "proto/rail_scheduler.hpp"
#include "proto/rendezvous_sink.hpp"
#include "proto/rendezvous_source.hpp"
#include "proto/session_recovery.hpp"
#include "proto/slot_granter.hpp"
#include "proto/transfer_completion.hpp"
#include "proto/transfer_flush.hpp"
#include "proto/transfer_packets.hpp"
#include "proto/transfer_table.hpp"
#include "proto/write_fence.hpp"

namespace gaudi::proto {

/// All that an endpoint has for operations of more than one message. Composes it, and nothing else:
/// each component calls those above it in this list.
struct transfer_engine {
  /// What it works with; all of it outlives this.
  struct parts {
    core::inner_domain& core;
    connection_manager& connections;
    core_transport& transport;
    receive_buffers& receives;
    device_copies& copies;
    packet_channel& channel;
    path_counters& paths;
    link_reporter& reports;
    const reg::key_table& keys;
  };

  transfer_engine(const endpoint_settings& config, const parts& with);

  /// What is under way with the connection, which has failed, ends.
  void connection_down(connection& c, int error);
  /// Gives back all memory that the core knows of, and every transfer: connections, core and
  /// devices know of none any more.
  void close() noexcept;

  transfer_table table;
  pipeline_planner planner;
  slot_granter slots;
  transfer_flush flush;
  rail_scheduler rail_choice;
  write_fence fences;
  transfer_completion completion;
  immediate_copies immediate;
  direct_rma direct;
  cooperative_copier cooperative;
  rail_connector rail_making;
  rail_keys rail_names;
  data_mover mover;
  rail_recovery rails;
  session_recovery sessions;
  link_watch links;
  dmabuf_sharing dmabufs;
  rendezvous_source source;
  rendezvous_sink sink;
  transfer_packets packets;
};

}  // namespace gaudi::proto
