// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>

#include "base/clock.hpp"
#include "proto/match/unexpected_budget.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

class connection;

/// Another endpoint, by the name of its listener. Exists from the first time that it is heard of or
/// sent to, so that its number can name the source of messages. One that is_unused() may be
/// forgotten: anybody can invent names. Belongs to the peer_registry.
struct peer {
  std::uint32_t number = 0;
  net_address name;
  // For new operations; replies go back on the connection of their request.
  connection* current = nullptr;
  std::uint32_t connections = 0;  // that there are, those that ended and are not freed yet as well
  int last_error = 0;             // of the last connection attempt, told to the next operation
  // After a request that came to nothing, as the peer refused it in favour of its own or it was
  // lost on its way: the next one waits until then. Since the first of them there was no
  // connection.
  base::clock::time_point asks_from{};
  base::clock::time_point asks_since{};
  base::clock::duration pause{};
  std::uint32_t early = 0;               // early_sends that wait for a connection or credit
  std::uint32_t unposted = 0;            // operations of rma_ranges that are not all posted
  fi_addr_t address = FI_ADDR_NOTAVAIL;  // the lowest one that the address vector has for it
  std::uint32_t told_path_reasons = 0;   // base::path_reason, as bits: the log has them
  unexpected_budget::share unexpected;
  staging_share chunks;
  staging_share slots;
  staging_share injected;

  /// Whether nothing names it or keeps anything of it.
  [[nodiscard]] bool is_unused() const noexcept {
    return address == FI_ADDR_NOTAVAIL && connections == 0 && early == 0 && unposted == 0 &&
           unexpected.empty() && chunks.held == 0 && slots.held == 0 && injected.held == 0;
  }
};

}  // namespace gaudi::proto
