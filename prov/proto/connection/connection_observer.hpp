// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/clock.hpp"
#include "proto/connection/connection.hpp"
#include "proto/peer/peer_registry.hpp"

namespace gaudi::proto {

/// Who wants to know of connections that came up and went down, and of time. Called from
/// connection_manager::poll and ::fail.
class connection_observer : public peer_numbers {
 public:
  /// The core endpoint is there, and takes receives before it is up.
  virtual void connection_opened(connection& c) = 0;
  virtual void connection_up(connection& c) = 0;
  /// A peer has closed its end: now is the time to take what came from it before that, and what it
  /// took from us.
  virtual void connections_ending() = 0;
  /// `error` is a positive FI_E* code. The core endpoint is closed: no memory is in use any more.
  virtual void connection_down(connection& c, int error) = 0;
  /// Its session has gone on to another state: interrupted, where the core endpoint is closed and
  /// what the core had of it comes back; resuming, where both ends have to say how far they are;
  /// or it is usable, as if nothing had been.
  virtual void session_changed(connection& c) { static_cast<void>(c); }
  /// The clock was asked for the time, which is not done at every poll.
  virtual void time_passed(base::clock::time_point now) noexcept { static_cast<void>(now); }

 protected:
  ~connection_observer() = default;
};

}  // namespace gaudi::proto
