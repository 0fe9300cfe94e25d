// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/outstanding_page.hpp"
#include "base/params.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/message/message_delivery.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// What others see of an endpoint that may hang: what its transfers and connections wait for, and
/// when it last made progress. Written while the endpoint progresses, twenty times a second at
/// most, so that short messages pay nothing for it; what a process was stopped in the middle of is
/// shown as it was by then.
///
/// Not thread safe: the caller holds the domain lock.
class outstanding_report {
 public:
  /// What it reports of; all of it outlives the report.
  struct parts {
    connection_manager& connections;
    transfer_table& table;
    device_copies& copies;
    message_delivery& delivery;
    direct_rma& direct;
  };

  /// `limits`: the endpoint's, of which it shows what is left.
  outstanding_report(parts of, const base::connection_limits& limits) noexcept
      : parts_(of), limits_(limits) {}

  /// The endpoint has a name. Throws std::bad_alloc.
  void open(const base::clock& clock);
  /// Nobody sees anything of it any more.
  void close() noexcept;

  /// The endpoint progresses; writes if that is due.
  void refresh(base::clock::time_point now) noexcept {
    if (endpoint_ && (now >= next_ || (is_asleep_ && is_short()))) write_all(now, false);
  }
  /// Nobody progresses it until something comes.
  void fall_asleep() noexcept {
    if (endpoint_) fall_asleep_at(clock_.now());
  }

 private:
  /// A connection that something waits for.
  struct shown_connection {
    std::uint32_t id;
    bool still_waits;
    base::outstanding::record_owner record;
  };

  void write_all(base::clock::time_point now, bool asleep) noexcept;
  void fall_asleep_at(base::clock::time_point now) noexcept;
  [[nodiscard]] bool is_short() const noexcept;
  [[nodiscard]] std::size_t operations() const noexcept;
  void write_endpoint(base::clock::time_point now, std::size_t waiting) noexcept;
  void write_operations(base::clock::time_point now) noexcept;
  std::size_t write_connections(base::clock::time_point now) noexcept;
  void write_connection(const connection& c, base::outstanding::wait_reason why,
                        base::clock::time_point now) noexcept;
  shown_connection* shown_as(std::uint32_t id) noexcept;

  const parts parts_;
  const base::connection_limits limits_;
  base::clock clock_{};
  base::outstanding::record_owner endpoint_;
  std::vector<shown_connection> connections_;
  base::clock::time_point next_{};
  base::clock::time_point loss_seen_at_{};
  std::uint64_t loss_epoch_ = 0;
  bool is_asleep_ = false;
};

/// What waits for the connection, or what the connection itself waits for; nothing: all is well.
base::outstanding::wait_reason wait_of(const connection& c) noexcept;

/// What the page calls the state, which is the same in all releases.
base::outstanding::connection_phase phase_of(connection_state s) noexcept;

}  // namespace gaudi::proto
