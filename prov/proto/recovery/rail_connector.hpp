// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/recovery/link_reporter.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "proto/transfer/write_fence.hpp"
#include "proto/wire/hello.hpp"

namespace gaudi::proto {

/// Makes rails and closes them, at both ends. Where the peer takes them it says when it is asked.
/// One that is lost is closed here, then by the peer, and made again later, when a transfer wants
/// it. prov/docs/protocol.md, "Rails".
///
/// Not thread safe: the caller holds the domain lock.
class rail_connector final : private rail_events {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    packet_channel& channel;
    rail_scheduler& scheduler;
    write_fence& fences;
    path_counters& paths;
    link_reporter& reports;
  };

  /// `is_stream`: what the core says to be written is in its place.
  rail_connector(const rail_settings& settings, bool is_stream, base::clock clock,
                 parts collaborators) noexcept
      : settings_(settings), is_stream_(is_stream), clock_(clock), parts_(collaborators) {
    parts_.connections.connector().use_for_rails(*this);
  }
  virtual ~rail_connector() = default;
  rail_connector(const rail_connector&) = delete;
  rail_connector& operator=(const rail_connector&) = delete;

  /// It is there. Where its session may need other routes, the two ends tell each other of their
  /// addresses. Throws std::bad_alloc.
  void connection_up(connection& c);
  /// Its session has gone on: a rail gives its route up that is the connection's now, for the one
  /// that is free.
  void resumed(connection& c) noexcept;
  /// A packet of the peer's has come, of this kind.
  void arrived(connection& c, const buffer& b, std::size_t length, wire::kind what);

  /// Goes on with the connection's rails. Whether time must be looked at.
  bool progress(connection& c);
  /// It is lost, and the core and the peer have nothing of it any more.
  void is_down(connection& c, rail& r) noexcept;
  /// Closes all: the connection has failed.
  void connection_down(connection& c) noexcept;

 private:
  void requested(fi_info& info, reg::other_nic* at, const hello& remote_hello) override;
  void up(const fid* endpoint) noexcept override;
  void ended(const fid* endpoint) noexcept override;

  struct owner {
    std::uint32_t connection;
    std::uint32_t number;
    bool is_peers;
  };

  void connect(connection& c, std::size_t place);
  [[nodiscard]] int request(connection& c, rail& r, std::size_t place);
  [[nodiscard]] int accept(connection& c, fi_info& info, reg::other_nic* at,
                           const hello& remote_hello);
  void close(core::unique_fid<fid_ep>& ep) noexcept;
  void close_failing(connection& c, rail& r);
  void count_up(const rail& r) noexcept;
  void count_down(const rail& r) const noexcept;
  void note_end_of_peers(connection& c, std::uint32_t number) noexcept;
  void tell_of_ends(connection& c);
  void close_of_peer(connection& c, std::uint32_t number) noexcept;
  void pause(connection& c) noexcept;
  void send(connection& c, wire::kind what, std::uint32_t number);
  void send_names(connection& c, wire::kind what);
  void listen_at_others();
  [[nodiscard]] bool tell_fence(reg::other_nic* nic, wire::rail_place& place);
  void names_came(connection& c, const buffer& b, std::size_t length, wire::kind what);
  [[nodiscard]] bool take_names(connection& c, const wire::rail_names_fields& names);

  const rail_settings& settings_;
  const bool is_stream_;
  const base::clock clock_;
  const parts parts_;
  std::unordered_map<const fid*, owner> by_endpoint_;
  std::vector<wire::rail_place> places_;  // where this end takes rails; empty: nobody has asked
};

}  // namespace gaudi::proto
