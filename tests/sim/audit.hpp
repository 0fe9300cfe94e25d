// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/endpoint.hpp"

namespace gaudi::proto {

/// Looks at what an endpoint keeps to itself: what must have come back once nothing is under way.
struct endpoint_audit {
  /// Whether a session waits for another connection.
  static bool is_interrupted(endpoint& e) { return e.connections_->any_interrupted(); }
  /// Those that are made and those that are being made.
  static std::size_t connections(const endpoint& e) { return e.connections_->count(); }
  /// Messages that `e` may send on its connection with this number.
  static std::uint32_t credits_for_data(endpoint& e, std::uint32_t connection) {
    return e.connections_->find(connection)->data.available();
  }
  /// Those that there are for packets that come, whoever has them.
  static std::size_t receive_buffers(const endpoint& e) { return e.receive_buffers_.pool_.total(); }
  /// Packets that wait for memory.
  static std::size_t postponed(endpoint& e) {
    std::size_t count = 0;
    e.connections_->for_each([&](const connection& c) { count += c.postponed.size(); });
    return count;
  }
  /// Transfers that are to be tried again.
  static std::size_t stalled(endpoint& e) { return e.transfers_.table.stalled().size(); }
  /// Of messages that no receive was posted for.
  static std::size_t unexpected_bytes(const endpoint& e) { return e.delivery_.unexpected_.kept(); }
  /// How long it may sleep with nothing for it from the core; 0: for ever.
  static std::chrono::nanoseconds alarm(const endpoint& e) {
    return e.transfers_.links.alarm_.was_set_to();
  }
  /// What wakes it then; -1: nothing does.
  static int alarm_fd(const endpoint& e) { return e.transfers_.links.alarm_.fd(); }
  /// Of its sessions: how many have left by the core, and how many of these it keeps.
  struct sent {
    std::size_t packets = 0;
    std::size_t kept = 0;
  };
  static sent packets_sent(endpoint& e) {
    sent all;
    e.connections_->for_each([&](const connection& c) {
      all.packets += c.session.sent;
      all.kept += c.session.sent + 1 - c.session.packets.first();
    });
    return all;
  }
  /// What is still held although nothing is outstanding; empty: nothing.
  static std::string leftover(endpoint& e);
  /// What must not be at any time; empty: nothing.
  static std::string breach(endpoint& e);
  /// Connections of `a` and `b` with each other whose credits do not add up; empty: none. Nothing
  /// is on its way between them.
  static std::string lost_credits(endpoint& a, endpoint& b);

 private:
  static std::size_t of_no_rail(endpoint& e);
};

}  // namespace gaudi::proto
