// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>

#include "base/clock.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/transfer/rail_scheduler.hpp"

namespace gaudi::proto {

/// Brings sessions back that have gone on over another NIC, where what is posted with a key takes a
/// message: when the first link is there again, as a rail over it tells, and after a pause. Who
/// comes back again and again has a link that is not to be relied on, and each pause is twice as
/// long.
///
/// Not thread safe: the caller holds the domain lock.
class way_home {
 public:
  /// Both outlive it.
  way_home(connection_manager& connections, rail_scheduler& rails,
           std::chrono::milliseconds pause) noexcept
      : connections_(connections), rails_(rails), pause_(pause) {}

  /// Of a connection that is up and in use, now and then.
  void look(connection& c, base::clock::time_point now) {
    if (c.session.is_away) [[unlikely]]
      look_from_away(c, now);
  }

  /// Its session has gone on: whichever end has wanted that.
  static void resumed(connection& c) noexcept;

 private:
  void look_from_away(connection& c, base::clock::time_point now);

  connection_manager& connections_;
  rail_scheduler& rails_;
  const std::chrono::milliseconds pause_;
};

}  // namespace gaudi::proto
