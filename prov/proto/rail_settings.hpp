// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "proto/net_address.hpp"

namespace gaudi::proto {

/// The rails of an endpoint.
struct rail_settings {
  std::size_t count = 1;                        // at most wire::max_rails; 1: the connection alone
  std::size_t chunk = std::size_t{512} * 1024;  // bytes that one of them gets at a time
  // Addresses of this host that those behind the first leave from, one after the other; where there
  // are more rails, the endpoint's own has its turn again.
  std::vector<net_address> others;
  std::chrono::milliseconds pause{
      1000};  // before one that was lost, or not to be had, is tried again
};

}  // namespace gaudi::proto
