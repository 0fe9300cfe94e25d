// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "core/fid.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/session/link_loss.hpp"
#include "proto/wire/net_address.hpp"
#include "proto/wire/wire.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// One of the core connections that carry the RMA of long transfers to a peer.
struct rail {
  enum class state : std::uint8_t {
    down,
    connecting,
    up,
    failing,  // closed as soon as nobody is looking at it
    lost,     // closed: the core gives back what it had, and the peer closes its end
  };

  core::unique_fid<fid_ep> ep;  // of the first rail: null, as the connection has it
  state now = state::down;
  bool was_up = false;            // of one that fails
  bool peer_has_closed = false;   // of one that is lost
  std::uint32_t number = 0;       // of this end and its connection: what the peer knows it by
  std::uint8_t route = 0;         // it leaves by (route.hpp)
  reg::other_nic* nic = nullptr;  // that carries it here; null: the domain's own
  std::uint8_t peer_nic = 0;      // that carries it there; 0: the one that the peer's keys are of
  base::clock::time_point asked_at{};
  link_loss lost;
  posted_op_list posted;  // and not completed. Of the first rail: among those of the connection
  posted_op_list undone;  // that a connection was lost with
  posted_op_list fences;  // that wait for room, or for the peer to close a rail that is lost
  /// How much it has to do, and how fast it is: the rail_scheduler's.
  struct {
    std::size_t bytes = 0;  // posted
    unsigned operations = 0;
    std::uint32_t ended = 0;  // operations, since it was made
    double rate = 0;          // in bytes per nanosecond; 0: not known
    // What is measured: from a time on, while it had something to do.
    base::clock::time_point since{};
    std::size_t done = 0;     // bytes
    bool from_start = false;  // it had nothing to do before
    bool is_known = false;    // has been measured before, so that its first use is over
    base::clock::time_point measured_at{};
  } load;
  /// Whether anything gets on: the link_watch's.
  struct {
    std::uint32_t ended = 0;  // by the last look
    std::uint32_t looks = 0;  // in a row that found as many
  } link;
};

/// Where a peer takes connections.
struct peer_place {
  net_address name;
  std::uint8_t nic = 0;   // rail::peer_nic of those that end there
  wire::segment fence{};  // what to read behind writes there
};

/// The rails between two endpoints, as one end of their connection sees them. Each end makes those
/// that it posts to itself, and only holds the ends of the peer's.
struct rail_set {
  explicit rail_set(std::size_t count) : rails(count) { rails[0].now = rail::state::up; }

  [[nodiscard]] bool any_up() const noexcept {
    return std::any_of(rails.begin() + 1, rails.end(),
                       [](const rail& r) { return r.now == rail::state::up; });
  }
  [[nodiscard]] bool any_down() const noexcept {
    return std::any_of(rails.begin() + 1, rails.end(),
                       [](const rail& r) { return r.now == rail::state::down; });
  }

  /// Of that NIC of the peer's.
  [[nodiscard]] wire::segment fence_at(std::uint8_t nic) const noexcept {
    const auto found = std::find_if(places.begin(), places.end(),
                                    [nic](const peer_place& one) { return one.nic == nic; });
    return found == places.end() ? wire::segment{} : found->fence;
  }

  std::vector<rail> rails;         // the first is the connection itself
  std::vector<peer_place> places;  // where the peer takes them; empty: not known
  /// What the peer's staging slots are called at its NICs, by what they are at its first. The
  /// rail_keys' own.
  std::array<std::vector<std::pair<std::uint64_t, std::uint64_t>>, wire::max_rails> slots_at;
  bool has_asked = false;   // for these, and has told where it may come from
  bool has_answer = false;  // so that the peer knows that
  bool asks_early = false;  // for the session, which may need them
  bool is_wanted = false;   // a transfer is long enough
  bool is_listed = false;   // among those that rail_recovery looks at
  std::uint32_t last_number = 0;
  base::clock::time_point asks_from{};  // of those that are down
  /// An end of the peer's.
  struct accepted {
    std::uint32_t number;
    core::unique_fid<fid_ep> ep;
    reg::other_nic* nic;     // that carries it; null: the domain's own
    bool has_ended = false;  // closed, and the peer told, as soon as nobody is looking at it
    base::clock::time_point asked_at{};  // the kernel, by the link_watch
  };
  std::vector<accepted> of_peer;
};

}  // namespace gaudi::proto
