// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counter.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/message/message_delivery.hpp"
#include "proto/transfer/rendezvous_source.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_flush.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {

/// What counts the accesses of peers (FI_RMA_EVENT). Null: not counted.
struct peer_access_counters {
  base::counter* reads = nullptr;
  base::counter* writes = nullptr;
};

/// One-sided operations of peers on memory of ours, that they ask for by message. The credit of a
/// request that is answered with data goes back with the answer.
///
/// Not thread safe: the caller holds the domain lock.
class rma_target {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    reg::key_table& keys;
    packet_channel& channel;
    transfer_table& table;
    transfer_completion& completion;
    transfer_flush& flush;
    rendezvous_source& rendezvous;
    message_delivery& delivery;
  };

  rma_target(parts collaborators, const peer_access_counters& counters) noexcept
      : parts_(collaborators), counters_(counters) {}

  /// Whether the buffer is free again.
  bool handle_write(connection& c, buffer& b, std::size_t length, bool rendezvous);
  void handle_read(connection& c, buffer& b, std::size_t length);
  /// A write by the peer's core is here, with remote CQ data.
  void handle_event(connection& c, buffer& b, std::size_t length);
  /// The peer asks for a flush of what its core wrote here.
  void handle_flush(connection& c, buffer& b, std::size_t length);

 private:
  bool serve_read(connection& c, const wire::rma_fields& request, const reg::region& source);
  bool reply_at_once(connection& c, buffer& b, wire::fin_fields& fields,
                     const local_memory& memory);
  bool reply_by_rendezvous(connection& c, buffer& b, wire::fin_fields& fields,
                           const local_memory& memory, const completion_spec& served);
  bool refuse(connection& c, std::uint64_t operation, int error);

  const parts parts_;
  const peer_access_counters& counters_;
};

}  // namespace gaudi::proto
