// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "proto/connection/connection.hpp"
#include "proto/connection/route.hpp"
#include "proto/peer/link_listener.hpp"
#include "proto/session/link_loss.hpp"

namespace gaudi::proto {

/// Tells of connections and rails that were lost and regained: the log, and a listener. The log has
/// one loss in a while as a warning, and what has become of it; a link that comes and goes, or a
/// job that ends with a thousand peers, is there at the level "info" alone.
///
/// Not thread safe: the caller holds the domain lock.
class link_reporter {
 public:
  link_reporter(session_routes routes, base::clock clock) noexcept
      : routes_(routes), clock_(clock) {}

  /// Null: nobody. Outlives this, or is taken back.
  void set_listener(link_listener* listener) noexcept { listener_ = listener; }

  /// Its session waits for another core connection.
  void connection_lost(connection& c) noexcept;
  /// Its session goes on.
  void connection_regained(connection& c) noexcept;
  /// It ends. Nothing is told of one that was not lost before.
  void connection_down(const connection& c, int error) noexcept;
  void rail_lost(const connection& c, std::size_t place) noexcept;
  /// It is up. Nothing is told of one that was not lost before.
  void rail_up(const connection& c, std::size_t place) noexcept;

 private:
  [[nodiscard]] bool may_warn() noexcept;
  [[nodiscard]] link_loss loss_now() noexcept;
  void tell(const link_change& change) const noexcept;
  [[nodiscard]] std::chrono::microseconds since(base::clock::time_point lost_at) const noexcept;

  const session_routes routes_;
  const base::clock clock_;
  link_listener* listener_ = nullptr;
  base::clock::time_point warns_from_{};
  std::uint64_t unsaid_ = 0;  // losses since the last warning
};

}  // namespace gaudi::proto
