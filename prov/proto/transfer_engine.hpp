// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/recovery/link_reporter.hpp"
#include "proto/recovery/link_watch.hpp"
#include "proto/recovery/rail_connector.hpp"
#include "proto/recovery/rail_recovery.hpp"
#include "proto/recovery/session_recovery.hpp"
#include "proto/transfer/cooperative_copier.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/dmabuf_sharing.hpp"
#include "proto/transfer/immediate_copies.hpp"
#include "proto/transfer/pipeline_planner.hpp"
#include "proto/transfer/rail_keys.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "proto/transfer/rendezvous_sink.hpp"
#include "proto/transfer/rendezvous_source.hpp"
#include "proto/transfer/slot_granter.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_flush.hpp"
#include "proto/transfer/transfer_packets.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "proto/transfer/write_fence.hpp"

namespace gaudi::proto {

/// All that an endpoint has for operations of more than one message. Composes it, and nothing else:
/// each component calls those above it in this list.
struct transfer_engine {
  /// What it works with; all of it outlives this.
  struct parts {
    core::inner_domain& core;
    const device::device_registry& devices;
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
