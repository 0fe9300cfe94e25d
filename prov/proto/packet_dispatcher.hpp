// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/make_room.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/channel/receive_buffers.hpp"
#include "proto/connection/connection_closer.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/message/message_delivery.hpp"
#include "proto/message/message_sender.hpp"
#include "proto/recovery/rail_connector.hpp"
#include "proto/recovery/session_recovery.hpp"
#include "proto/rma/atomics.hpp"
#include "proto/rma/rma_target.hpp"
#include "proto/transfer/transfer_packets.hpp"

namespace gaudi::proto {

/// What arrives: packets, in receive buffers, are counted against their credits and given to whom
/// they concern. Keeps connections in receives, and the packets that wait for memory.
///
/// Not thread safe: the caller holds the domain lock.
class packet_dispatcher {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    receive_buffers& buffers;
    packet_channel& channel;
    connection_closer& closer;
    message_delivery& delivery;
    message_sender& sender;
    rma_target& target;
    proto::atomics& atomics;
    transfer_packets& transfers;
    session_recovery& sessions;
    rail_connector& rails;
  };

  explicit packet_dispatcher(parts collaborators) noexcept : parts_(collaborators) {}

  /// A receive of the core has ended. `error`: 0 or a positive FI_E*.
  void receive_completed(buffer& b, std::size_t length, int error);
  /// A packet has come through shared memory. False: there is no buffer for it now.
  bool take_from_shm(connection& c, std::span<const std::byte> packet);
  /// The same for a message that is expected, into host memory, which is nearly all that comes this
  /// way: it goes to its place from where its sender has put it. False: it has to be taken by
  /// take_from_shm, and nothing was done.
  [[nodiscard]] bool take_in_place(connection& c, std::span<const std::byte> packet);

  /// Room in the list for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(receives_waiting_, connections); }
  /// Posts the receives of a connection; over a stream each has its own.
  void post_receives(connection& c);
  /// Posts those that had no room, where there is some.
  void post_waiting_receives();
  /// Whether that would find room.
  [[nodiscard]] bool can_post_receives() const noexcept {
    return !receives_waiting_.empty() && parts_.buffers.has_room();
  }

  /// Tries packets again that wait for memory.
  void retry_postponed();
  [[nodiscard]] bool any_postponed() const noexcept { return any_postponed_; }
  /// Drops what waits of a connection that has failed.
  void connection_down(connection& c);

 private:
  void packet_arrived(connection& c, buffer& b, std::size_t length);
  [[gnu::always_inline]] static bool admit(connection& c, const wire::header& head) noexcept;
  [[gnu::always_inline]] void take(connection& c, buffer& b, std::size_t length);
  bool dispatch_rest(connection& c, buffer& b, std::size_t length);
  bool dispatch_transfer(connection& c, buffer& b, std::size_t length, wire::kind what);
  [[gnu::always_inline]] bool dispatch_or_end(connection& c, buffer& b, std::size_t length);
  void handle_credit_release(connection& c, buffer& b, std::size_t length);
  void handle_closing(connection& c, wire::kind what);
  void overrun(connection& c);
  [[gnu::always_inline]] void done_with(connection& c, buffer& b, bool free);
  void postpone(connection& c, buffer& b, std::size_t length) noexcept;

  const parts parts_;
  std::vector<std::uint32_t> receives_waiting_;  // connections by id
  bool any_postponed_ = false;                   // connection::postponed
};

}  // namespace gaudi::proto
