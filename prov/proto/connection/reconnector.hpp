// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/make_room.hpp"
#include "proto/connection/connection.hpp"
#include "proto/connection/connection_opener.hpp"
#include "proto/connection/connection_table.hpp"
#include "proto/connection/route.hpp"

namespace gaudi::proto {

/// The sessions whose core connection was lost: asks their peers for others, and says when to give
/// up.
///
/// Not thread safe: the caller holds the domain lock.
class reconnector {
 public:
  /// `timeout`: how long a session waits; 0: none is kept.
  reconnector(connection_table& connections, connection_opener& opener, session_routes routes,
              std::chrono::seconds timeout, base::clock clock) noexcept
      : connections_(connections),
        opener_(opener),
        routes_(routes),
        timeout_(timeout),
        clock_(clock) {}

  [[nodiscard]] bool any() const noexcept { return !interrupted_.empty(); }
  /// Room for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(interrupted_, connections); }
  /// Whether its session outlives the end of its core connection.
  [[nodiscard]] static bool may_go_on(const connection& c) noexcept;

  /// The core connection is lost, for this reason (a positive FI_E*), or an attempt to make another
  /// one has failed: closes its core endpoint. After an attempt, or silence, the next route has its
  /// turn.
  void interrupt(connection& c, int error);
  /// It has its new core endpoint, by a request of this end's or not.
  void begin_attempt(connection& c, bool requested_here) noexcept;
  /// Whether the answer to an attempt says that the peer has no session any more. `verdict` on its
  /// hello, and `error` of the core's.
  [[nodiscard]] bool is_final(connection& c, wire::reject_reason verdict,
                              const wire::hello& remote_hello, int error) noexcept;

  /// Asks again for those whose turn it is. Calls failed(connection&, error) for each attempt that
  /// has, or has waited in vain for an answer, and give_up(connection&) for each session whose time
  /// is over.
  template <class Failed, class Give_up>
  void poll(Failed&& failed, Give_up&& give_up) {
    const auto now = clock_.now();
    const std::vector<std::uint32_t> all = listed();
    for (const std::uint32_t id : all) {
      connection* const c = connections_.find(id);
      if (!c || !c->is_interrupted()) continue;
      ++c->session.interruption.looks;
      if (is_over(*c, now)) {
        give_up(*c);
      } else if (may_ask(*c, now)) {
        if (const int error = ask(*c)) failed(*c, error);
      } else if (is_overdue(*c, now)) {
        failed(*c, FI_ETIMEDOUT);
      }
    }
  }

 private:
  void attempt_failed(connection& c, int error) noexcept;
  [[nodiscard]] std::vector<std::uint32_t> listed();
  [[nodiscard]] int ask(connection& c) noexcept;
  [[nodiscard]] std::chrono::milliseconds attempt_limit(const connection& c) const noexcept;
  [[nodiscard]] bool is_over(const connection& c, base::clock::time_point now) const noexcept;
  [[nodiscard]] bool may_ask(const connection& c, base::clock::time_point now) const noexcept;
  [[nodiscard]] bool is_overdue(const connection& c, base::clock::time_point now) const noexcept;

  connection_table& connections_;
  connection_opener& opener_;
  const session_routes routes_;
  const std::chrono::seconds timeout_;
  const base::clock clock_;
  std::vector<std::uint32_t> interrupted_;  // by id; some may be so no more
};

}  // namespace gaudi::proto
