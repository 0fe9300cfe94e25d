// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/random_source.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "proto/connection/connection.hpp"
#include "proto/connection/connection_config.hpp"
#include "proto/connection/connection_observer.hpp"
#include "proto/connection/connection_opener.hpp"
#include "proto/connection/connection_room.hpp"
#include "proto/connection/connection_table.hpp"
#include "proto/connection/core_connector.hpp"
#include "proto/connection/credit_pool.hpp"
#include "proto/connection/handshake_limits.hpp"
#include "proto/connection/peer_requests.hpp"
#include "proto/connection/pending_ends.hpp"
#include "proto/connection/poll_pacer.hpp"
#include "proto/connection/reconnector.hpp"
#include "proto/connection/shm_negotiator.hpp"
#include "proto/peer/peer_registry.hpp"
#include "proto/wire/hello.hpp"

namespace gaudi::proto {

/// Makes connections on demand and takes those that peers ask for. When two endpoints ask each
/// other at once, the request of the one with the greater name goes on (and both keep one
/// connection); an endpoint that sends to itself has two, one for each end.
///
/// Not thread safe: the caller holds the domain lock.
class connection_manager final : private connection_events {
 public:
  connection_manager(core::inner_domain& core, const connection_config& config,
                     connection_observer& observer);
  virtual ~connection_manager();

  /// As core_connector::listen. Memory is shared with peers on this host from then on, too.
  base::result<void> listen(fid_cq* completions, fid_ep* shared_receives, bool waitable = false,
                            bool any_port = false);
  [[nodiscard]] const net_address& name() const noexcept { return connector_.name(); }
  /// What peers tell this endpoint from others by.
  [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }
  [[nodiscard]] peer_registry& peers() noexcept { return peers_; }
  [[nodiscard]] shm_negotiator& shm() noexcept { return shm_; }

  /// A usable connection to the peer; starts to make one if there is none, and room for it
  /// (connection_room). -FI_EAGAIN: not yet.
  /// -FI_EOPBADSTATE: not before listen(). -FI_ETIMEDOUT: the peer has not answered within
  /// connection_config::limits. Another error: the last attempt failed with it. After an error
  /// the next call makes another attempt.
  base::result<connection*> get_connection(peer& p);

  [[nodiscard]] connection* find(std::uint32_t id) const noexcept { return connections_.find(id); }

  /// Handles what the core reports of connections. Cheap when called often: looks at the core at
  /// each call while a connection is being made, else every 200 us, and less and less often, down
  /// to every 5 ms, while there is nothing.
  void poll() {
    if (being_made_ != 0 || pacer_.is_clock_due()) poll_if_due();
  }
  /// Without `core_may_tell` there is nothing new at the core.
  void poll_now(bool core_may_tell = true);

  /// What makes core endpoints, for whom it concerns that not all are a connection's.
  [[nodiscard]] core_connector& connector() noexcept { return connector_; }

  /// A packet came on a connection that is not usable yet. False: it is not up after all.
  bool confirm_connected(connection& c);

  /// Closes a connection that is of no use any more; its observer is told.
  void fail(connection& c, int error);
  /// The same at the next poll, for who is in the middle of something. The first error counts.
  void fail_soon(connection& c, int error) noexcept {
    if (c.state != connection_state::failed) ends_.add(c.id, error, true);
  }
  /// Its core connection is lost: at the next poll it is interrupted, if its session may go on.
  void lost_soon(connection& c, int error) noexcept {
    if (c.state != connection_state::failed) ends_.add(c.id, error, false);
  }
  /// Its session has all that was lost.
  void resumed(connection& c);
  /// Fails it for what its peer sent, and says so.
  void malformed(connection& c, const char* what);
  /// What is done for one peer ends with its connection where there is no memory for it, and goes
  /// on for the others. Null: there is no connection to end.
  template <class Call>
  void on_behalf_of(connection* c, Call&& call) noexcept try {
    call();
  } catch (const std::bad_alloc&) {
    if (c) fail_soon(*c, FI_ENOMEM);
  }

  /// Whether a session waits for another core connection, which takes time that must be looked at.
  [[nodiscard]] bool any_interrupted() const noexcept { return reconnects_.any(); }

  /// What the peers may send without an answer.
  [[nodiscard]] credit_pool& credits() noexcept { return credits_; }
  [[nodiscard]] std::size_t count() const noexcept { return connections_.count(); }
  template <class Visit>
  void for_each(Visit&& visit) {
    connections_.for_each(std::forward<Visit>(visit));
  }

 private:
  // connection_manager.cpp: how connections are made and end.
  base::result<connection*> add(peer& p, connection_state s);
  base::result<void> connect(peer& p);
  void accept(peer& p, fi_info& info, const hello& remote_hello);
  void now_usable(connection& c);
  void drop(connection& c);

  // connection_events.cpp: what the core tells.
  void request_came(core::unique_info info, reg::other_nic* at, wire::reject_reason verdict,
                    const hello& remote_hello) override;
  void endpoint_up(const fid* endpoint, const hello* remote_hello) override;
  void endpoint_ended(const fid* endpoint) override;
  void endpoint_failed(const fid* endpoint, wire::reject_reason verdict, const hello& remote_hello,
                       int error) override;
  void poll_if_due();
  void read_events();
  void take_request(peer_request&& request);
  void handle_request(peer_request&& request);
  void meet_request(connection& c, peer_request&& request);
  void handle_resumption(peer_request&& request);
  void take_answer(connection& c, const hello* remote_hello);
  void end(connection& c, int error, bool final);

  const connection_config config_;
  connection_observer& observer_;
  credit_pool credits_;
  const std::uint64_t instance_;  // tells this endpoint from an earlier one at the same address
  core_connector connector_;
  shm_negotiator shm_;
  peer_registry peers_;
  connection_table connections_;
  pending_ends ends_;
  peer_requests requests_;  // answered after these, or when they can be
  handshake_limits limits_;
  connection_room room_;
  connection_opener opener_;
  reconnector reconnects_;
  unsigned being_made_ = 0;  // and interrupted
  poll_pacer pacer_;
  const bool over_rdma_;
};

}  // namespace gaudi::proto
