// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "proto/peer/peer.hpp"

namespace gaudi::proto {

/// What has become of a link to a peer.
struct link_change {
  enum class kind : std::uint8_t {
    connection_lost,      // another one is being made
    connection_regained,  // and is there
    connection_given_up,  // or cannot be made: what was under way fails
    rail_lost,            // the others carry on
    rail_regained,
  };

  kind what;
  const peer& remote;
  std::size_t rail = 0;                 // of rail_*: its place, from 1 on
  int error = 0;                        // what it was lost or given up for, a positive FI_E*
  bool moved = false;                   // connection_regained: over another link than before
  std::chrono::microseconds outage{0};  // since it was lost
};

/// Who is told of them, each once. Called under the domain lock, in the middle of something: it
/// calls nothing of the endpoint's.
class link_listener {
 public:
  virtual void link_changed(const link_change& change) noexcept = 0;

 protected:
  ~link_listener() = default;
};

}  // namespace gaudi::proto
