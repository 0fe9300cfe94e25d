// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/transfer/cooperative_copier.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/dmabuf_exporter.hpp"
#include "proto/transfer/dmabuf_importer.hpp"
#include "proto/transfer/rendezvous_sink.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// What peers say of transfers that are under way. Every length and name in a packet is the peer's
/// word and is checked before it is used.
///
/// Has no state of its own. Not thread safe: the caller holds the domain lock.
class transfer_packets {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    packet_channel& channel;
    transfer_table& table;
    transfer_completion& completion;
    cooperative_copier& cooperative;
    rail_keys& rails;
    data_mover& mover;
    dmabuf_exporter& exporter;
    dmabuf_importer& importer;
    rendezvous_sink& sink;
  };

  explicit transfer_packets(parts collaborators) noexcept : parts_(collaborators) {}

  /// The answer to a read. Whether the buffer is free again.
  bool handle_read_reply(connection& c, buffer& b, std::size_t length, bool rendezvous);
  void handle_cts(connection& c, buffer& b, std::size_t length);
  void handle_chunk(connection& c, buffer& b, std::size_t length);
  void handle_slot_credit(connection& c, buffer& b, std::size_t length);
  void handle_fin(connection& c, buffer& b, std::size_t length);
  void handle_copy_assist(connection& c, buffer& b, std::size_t length);
  void handle_dmabuf_request(connection& c, buffer& b, std::size_t length);
  void handle_dmabuf(connection& c, buffer& b, std::size_t length);
  void handle_dmabuf_revoke(connection& c, buffer& b, std::size_t length);
  void handle_rail_question(connection& c, buffer& b, std::size_t length);
  void handle_rail_keys(connection& c, buffer& b, std::size_t length);

 private:
  bool take_reply(connection& c, buffer& b, const std::byte* payload, std::size_t length,
                  transfer& t);
  void take_cts(connection& c, const wire::cts_fields& cts, transfer& t);

  const parts parts_;
};

}  // namespace gaudi::proto
