// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "core/tcp_streams.hpp"
#include "proto/session/rail_counters.hpp"
#include "proto/wire/net_address.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// Where rails behind an endpoint's first leave from.
struct rail_interface {
  net_address at;                 // of this host
  reg::other_nic* nic = nullptr;  // whose address it is; null: the domain's own carries it, too
  std::string name{};             // of the interface or NIC
};

/// The rails of an endpoint.
struct rail_settings {
  std::size_t count = 1;                        // at most wire::max_rails; 1: the connection alone
  std::size_t chunk = std::size_t{512} * 1024;  // bytes that one of them gets at a time
  // Those behind the first leave from these, one after the other; where there are more rails, the
  // endpoint's own has its turn again. NICs outlive the endpoint.
  std::vector<rail_interface> others;
  std::chrono::milliseconds pause{
      1000};  // before one that was lost, or not to be had, is tried again
  // After which a session that is over another NIC looks for the first link again.
  std::chrono::milliseconds home_pause{10'000};
  // Of each behind the first; outlive the endpoint. Fewer: nobody looks at those.
  std::vector<rail_counters*> counted{};
  // Of the domain, over a stream; null: nobody finds out that a link is down before the core does.
  core::tcp_streams* streams = nullptr;

  [[nodiscard]] rail_counters* counters_of(std::size_t place) const noexcept {
    return place - 1 < counted.size() ? counted[place - 1] : nullptr;
  }
};

}  // namespace gaudi::proto
