// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/params.hpp"
#include "base/random_source.hpp"
#include "ipc/host_kernel.hpp"
#include "proto/connection/core_connector.hpp"
#include "proto/session/rail_settings.hpp"

namespace gaudi::proto {

/// What the connections of an endpoint are to be, and what peers are told of that.
struct connection_config {
  std::uint32_t eager_limit;
  std::size_t rx_buffers;                // shared by all peers
  ipc::host_kernel* kernel;              // to share memory with peers on this host; null: with none
  bool takes_dmabufs;                    // of these
  std::size_t slots = 0;                 // that data for devices passes through there, each way
  std::size_t slot_size = 0;             // bytes
  const rail_settings* rails = nullptr;  // for other routes; null: there are none. Outlives it.
  bool moves_sessions = false;           // wire::moves_sessions
  receives_at_nics* receives = nullptr;  // with moves_sessions: for them. Outlives it.
  base::connection_limits limits{};
  base::clock clock{};
  base::random_source random{};
};

}  // namespace gaudi::proto
