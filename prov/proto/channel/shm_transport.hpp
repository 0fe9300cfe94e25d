// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/ring_watch.hpp"
#include "proto/connection/connection_manager.hpp"

namespace gaudi::proto {

/// Packets to and from peers on this host through shared memory. Only packets: credits and matching
/// are those of all connections. A peer that sleeps is woken through the core.
///
/// Not thread safe: the caller holds the domain lock.
class shm_transport {
 public:
  /// `max_packet`: bytes of the largest packet, header included.
  shm_transport(connection_manager& connections, core_transport& core, std::size_t max_packet,
                base::clock clock) noexcept
      : connections_(connections), core_(core), max_packet_(max_packet), watched_(clock) {}

  /// Room in both lists for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections);
  /// A connection with connection::shm is up.
  void add(connection& c);
  void remove(const connection& c) noexcept;
  [[nodiscard]] bool empty() const noexcept { return watched_.empty(); }

  /// Space for a packet of so many bytes, to be filled before the next call; null: no room.
  [[nodiscard]] static std::byte* reserve_packet(connection& c, std::size_t length) {
    return c.shm->out().reserve(length);
  }
  /// The packet is complete: the peer may take it.
  void commit(connection& c) {
    if (c.shm->out().commit(c.shm->peer_sleeps())) ring_doorbell(c);
  }
  /// A packet whose header is completed here. False: no room.
  bool send(connection& c, const std::byte* packet, std::size_t length);

  /// Wakes the peer, now or as soon as there is room.
  void ring_doorbell(connection& c);
  /// Those that had no room.
  void ring_doorbells();
  [[nodiscard]] bool owes_doorbells() const noexcept { return !doorbells_.empty(); }

  /// A look at the connections whose turn it is (ring_watch): take(connection, packet) copies the
  /// packet and acts on it; false: it cannot take any more from this one now. Whether there was
  /// anything.
  template <class Take>
  bool poll(Take&& take) {
    return watched_.look([&](connection& c) {
      int taken = 0;
      while (taken < at_once && take_packet(c, take)) ++taken;
      return taken != 0;
    });
  }
  /// A short look at those that have said something lately: take(connection, packet) takes what is
  /// expected. Whether there was such, and nothing else; if not, and after some such looks, poll()
  /// and all that is beside it have their turn.
  template <class Take>
  bool poll_expected(Take&& take) {
    constexpr unsigned max_in_a_row = 8;
    const bool any = short_looks_ != max_in_a_row && look_shortly(take);
    short_looks_ = any ? short_looks_ + 1 : 0;
    return any;
  }
  /// The next poll() looks at all connections.
  void expect_all() noexcept { watched_.expect_all(); }
  /// As long as packets come this way, the core has to wait for some looks at them. Whether it is
  /// its turn. `any`: what poll() said.
  bool is_turn_of_core(bool any) noexcept;
  /// Whether a thread may sleep: no packet is here, and peers know that they have to wake it.
  [[nodiscard]] bool may_sleep() const noexcept;

 private:
  static constexpr int at_once = 16;  // from one peer, before the others have their turn

  [[nodiscard]] bool fits(std::span<const std::byte> packet) const noexcept {
    return packet.size() >= sizeof(wire::header) && packet.size() <= max_packet_;
  }
  template <class Take>
  bool look_shortly(Take& take) {
    ++core_waits_;
    return watched_.look_at_busy_only([&](connection& c) {
      ipc::ring_reader& ring = c.shm->in();
      int taken = 0;
      do {
        const std::span<const std::byte> packet = ring.front();
        if (!fits(packet) || !take(c, packet)) return false;
      } while (++taken < at_once && !ring.is_empty());
      return true;
    });
  }
  template <class Take>
  bool take_packet(connection& c, Take&& take) {
    if (c.shm->in().is_empty()) return false;
    const std::span<const std::byte> packet = front(c);
    return !packet.empty() && take(c, packet) && c.state != connection_state::failed;
  }
  std::span<const std::byte> front(connection& c);

  connection_manager& connections_;
  core_transport& core_;
  const std::size_t max_packet_;
  ring_watch watched_;                    // of peers on this host
  std::vector<std::uint32_t> doorbells_;  // connections whose peer has to be woken, by id
  unsigned quiet_looks_ = 0;              // since one brought something
  unsigned core_waits_ = 0;               // looks since the last one at the core
  unsigned short_looks_ = 0;              // in a row
};

}  // namespace gaudi::proto
