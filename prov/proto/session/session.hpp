// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/session/link_loss.hpp"
#include "proto/session/sent_packets.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

/// What a connection keeps to go on over another core connection when the one that it has is lost:
/// then each end says which packet of the other it has received last, and what came behind that is
/// sent again, as is the RMA that the core has not done. prov/docs/protocol.md, "Sessions".
struct session {
  /// Completes the header of a packet that leaves by the core; kept from then on.
  void number(wire::header& h) noexcept {
    if (!is_kept) return;
    h.number = ++sent;
    h.received = received;
  }
  /// The packet did not leave after all.
  void take_back() noexcept {
    if (is_kept) --sent;
  }
  /// Whether the peer can say that it has received this one.
  [[nodiscard]] bool may_be_received(std::uint32_t n) const noexcept {
    return static_cast<std::int32_t>(n - (packets.first() - 1)) >= 0 &&
           static_cast<std::int32_t>(sent - n) >= 0;
  }

  /// Once it is resumed: whether it has another route than before.
  [[nodiscard]] bool has_moved() const noexcept { return route != interruption.from; }

  bool is_kept = false;        // both ends keep what they send
  bool may_move = false;       // to other NICs of either end (wire::moves_sessions)
  bool is_away = false;        // its core connection is over one: the first of the rails says which
  bool is_over = false;        // the peer has closed: nothing goes on
  bool is_confirmed = false;   // while it is interrupted: the connection has been up here
  bool has_said = false;       // while it is resumed: how far this end is
  bool has_heard = false;      // and how far the peer is
  bool is_replaying = false;   // RMA that was undone may be posted
  bool is_listed = false;      // among those that owe the peer a word
  bool owes_word = false;      // of what was received, since the last packet to the peer
  std::uint8_t route = 0;      // of its core connection, or of the attempt to make one
  std::uint8_t returns = 0;    // to the first of them from another NIC: the way_home's
  std::uint32_t sent = 0;      // the last packet's number
  std::uint32_t received = 0;  // the peer's last packet's
  std::uint32_t next = 0;      // while it is resumed: the packet that is sent again next
  sent_packets packets;        // that the peer may not have received
  posted_op_list undone;       // RMA that the core gave back, by posted_op::number
  /// With may_move: of it what has still to be posted on the connection that is up. No packet says
  /// that it is done: none that it left before.
  posted_op_list to_redo;
  /// While it is interrupted: the connection_manager's.
  struct {
    base::clock::time_point
        since{};  // of several in a row, with nothing done in between: the first
    base::clock::time_point asks_from{};
    int error = 0;           // that it fails with at the end
    int last_attempt = 0;    // what that failed with
    bool got_on = true;      // since then anything was received or done, or nothing was left to do
    bool is_busy = false;    // the peer has refused the last attempt for the moment
    bool goes_home = false;  // it is to be: the first route is possible again (way_home)
    std::uint8_t from = 0;   // the route of the core connection that was lost
    std::uint32_t failed = 0;  // attempts, without those
    std::uint32_t looks = 0;   // at the attempt under way
  } interruption;
  link_loss lost;
};

}  // namespace gaudi::proto
