// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "proto/connection/connection.hpp"
#include "proto/connection/connection_config.hpp"
#include "proto/connection/connection_table.hpp"
#include "proto/connection/core_connector.hpp"
#include "proto/connection/credit_pool.hpp"
#include "proto/connection/route.hpp"
#include "proto/connection/shm_negotiator.hpp"
#include "proto/wire/hello.hpp"

namespace gaudi::proto {

class connection_observer;

/// Gives connections their core endpoints, and says in the hellos of requests and answers what the
/// peer has to know: for the first core connection that they have, and for each that follows in
/// their session.
///
/// Not thread safe: the caller holds the domain lock.
class connection_opener {
 public:
  /// All of it outlives this.
  struct parts {
    connection_table& connections;
    core_connector& connector;
    credit_pool& credits;
    shm_negotiator& shm;
    connection_observer& observer;
  };

  connection_opener(const connection_config& config, std::uint64_t instance,
                    parts collaborators) noexcept
      : config_(config), instance_(instance), routes_(config.rails), parts_(collaborators) {}

  /// Asks the peer. Errors are the core's; throws std::bad_alloc. The endpoint may be there anyway.
  base::result<void> request(connection& c);
  /// Accepts what a peer asks for. 0, or an error of the core's; throws std::bad_alloc. Where the
  /// endpoint is there anyway, its end refuses the request.
  int answer(connection& c, fi_info& info, const hello& remote_hello);
  void reject(const fi_info& info, wire::reject_reason why) const noexcept;
  /// The same for all requests that were not read yet: it is the end.
  void refuse_unread() noexcept;
  /// What the peer has said of itself.
  void take_terms(connection& c, const hello& remote_hello) const noexcept;

 private:
  base::result<void> open_endpoint(connection& c, fi_info& info);
  [[nodiscard]] hello own_hello(const connection* c, wire::reject_reason reason) const noexcept;

  const connection_config& config_;
  const std::uint64_t instance_;
  const session_routes routes_;
  const parts parts_;
};

}  // namespace gaudi::proto
