// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/fid.hpp"
#include "proto/wire/wire.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// A peer's, that wants a connection.
struct peer_request {
  core::unique_info info;
  hello remote_hello;
  reg::other_nic* at = nullptr;  // that it came by; null: the domain's own
  std::uint32_t waits_for = 0;   // this connection to be confirmed, or to end; 0: for none
};

/// Requests of peers that are not answered yet.
///
/// Not thread safe: the caller holds the domain lock.
class peer_requests {
 public:
  /// Until the connections have ended that are about to. Throws std::bad_alloc.
  void defer(peer_request&& request) { deferred_.push_back(std::move(request)); }
  /// Until the connection is confirmed, or has ended. False: another one waits for that already,
  /// and this is still the caller's. Throws std::bad_alloc.
  bool defer_until_confirmed(std::uint32_t connection, peer_request& request) {
    const auto waits_too = [&](const peer_request& r) { return r.waits_for == connection; };
    if (std::any_of(deferred_.begin(), deferred_.end(), waits_too)) return false;
    request.waits_for = connection;
    deferred_.push_back(std::move(request));
    return true;
  }
  /// All of them, in order. They may be deferred again.
  [[nodiscard]] std::vector<peer_request> take() { return std::exchange(deferred_, {}); }

 private:
  std::vector<peer_request> deferred_;
};

}  // namespace gaudi::proto
