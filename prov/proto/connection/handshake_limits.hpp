// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>

#include "base/clock.hpp"
#include "proto/connection/connection_table.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

/// How long whoever connects may take for it. Until a connection is made, descriptors and memory
/// are held for somebody who may never say more. Not thread safe: the caller holds the domain lock.
class handshake_limits {
 public:
  /// `timeout`: 0: as long as they like.
  explicit handshake_limits(std::chrono::seconds timeout) noexcept : timeout_(timeout) {}

  /// Over a core that listens at a socket: limits those as well that connect to the listener of
  /// this name and ask for nothing.
  void watch_listener(const net_address& name, base::clock::time_point now);

  /// The endpoint closes, and none of its connections is left: who still waits for an answer of the
  /// listener is let go. Returns whether anyone did.
  bool let_go() const noexcept;

  /// Whether there is anything to look for.
  [[nodiscard]] bool apply(bool any_being_made) const noexcept {
    return may_be_overdue(any_being_made) || watches_listener_;
  }
  /// Calls end(connection&), which removes it, for each whose peer does not answer, as it is out of
  /// descriptors or stopped, or asked and is silent since then; and ends the listener's silent
  /// ones.
  template <class End>
  void look(const connection_table& table, bool any_being_made, base::clock::time_point now,
            End&& end) {
    if (may_be_overdue(any_being_made) && now >= next_overdue_look_) {
      next_overdue_look_ = now + overdue_interval;
      while (connection* const c = overdue(table, now)) end(*c);
    }
    if (watches_listener_ && now >= next_silence_look_) end_silent(now);
  }

 private:
  static constexpr std::chrono::milliseconds overdue_interval{100};

  [[nodiscard]] bool may_be_overdue(bool any_being_made) const noexcept {
    return any_being_made && timeout_.count() != 0;
  }
  [[nodiscard]] connection* overdue(const connection_table& table,
                                    base::clock::time_point now) const;
  void end_silent(base::clock::time_point now);

  const std::chrono::seconds timeout_;
  net_address listener_;
  base::clock::time_point next_overdue_look_{};
  base::clock::time_point next_silence_look_{};
  bool watches_listener_ = false;
  bool told_of_silent_ = false;
};

}  // namespace gaudi::proto
