// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/connection/connection.hpp"
#include "proto/session/rail_settings.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

/// Between which addresses a core connection is made. Route i leaves from this end's address i and
/// goes to the peer's address i, each modulo how many there are: both ends call it by the same
/// number. Connections begin with route 0; the rail at place i has route i.
struct route {
  const net_address* to;                 // the connection's own, or its peer's
  const rail_interface* from = nullptr;  // null: where this end's listener is
  std::uint8_t peer_nic = 0;             // 0: the one that the peer's keys are of

  /// Whose address it leaves from; null: the domain's own.
  [[nodiscard]] reg::other_nic* nic() const noexcept { return from ? from->nic : nullptr; }
};

/// The route of that number from here to the connection's peer.
[[nodiscard]] route route_of(const connection& c, const rail_settings& settings,
                             std::size_t number) noexcept;

/// Routes that the core connections of a session can have one after the other, from when each end
/// knows the other's addresses on: those whose NIC is the domain's own at both ends, and where both
/// move sessions (wire::moves_sessions) the others, too.
class session_routes {
 public:
  /// Null: there is but the first. Outlives this.
  explicit session_routes(const rail_settings* settings) noexcept : settings_(settings) {}

  [[nodiscard]] route current(const connection& c) const noexcept;
  /// How many there are to choose from: at least 1.
  [[nodiscard]] std::size_t count(const connection& c) const noexcept;
  /// The one behind the connection's, or that one where there is no other.
  [[nodiscard]] std::uint8_t next(const connection& c) const noexcept;

 private:
  [[nodiscard]] bool is_possible(const connection& c, std::size_t number) const noexcept;

  const rail_settings* settings_;
};

}  // namespace gaudi::proto
