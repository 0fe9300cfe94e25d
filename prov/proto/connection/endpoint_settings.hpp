// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/params.hpp"
#include "base/random_source.hpp"
#include "copy/dma_engine.hpp"
#include "ipc/host_kernel.hpp"
#include "proto/peer/link_listener.hpp"
#include "proto/session/rail_settings.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/import_cache.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::proto {

/// How an endpoint works: what was agreed in its fi_info, the parameters in force, and what it has
/// of its domain, which outlives it.
struct endpoint_settings {
  bool directed_receive = false;  // FI_DIRECTED_RECV
  bool source_errors = false;     // FI_SOURCE_ERR
  bool rma_order = false;         // FI_ORDER_RMA_*, FI_ORDER_SAW: as the core has them
  bool provider_keys = false;     // keys without reg::key_table::software_bit are the core's own
  std::size_t eager_size = 0;     // largest payload of one message
  // Of one in host memory that a peer on this host could read instead.
  std::size_t max_by_ring = SIZE_MAX;
  std::size_t staging_chunk = 0;
  std::size_t staging_depth = 0;
  std::size_t rx_buffers = 0;
  std::size_t unexpected_limit = 0;
  // Operations at the core at a time; 0: as many as its completion queue has room for.
  std::size_t core_operations = 0;
  // How often a message is refused for want of a credit, with no sign of the peer in between,
  // before it waits here. A peer that only takes its time is faster without the queue.
  std::uint32_t refusals_before_waiting = 1000;
  // How long a close waits for peers to take what was sent to them.
  std::chrono::milliseconds linger{0};
  // How long a peer may take to answer a connection request, and how long a session waits for
  // another core connection.
  base::connection_limits limits{};
  rail_settings rails{};
  copy::engine_config copies{};
  base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic;
  // Of the domain; null: devices get short messages by their engines.
  reg::nic_loopback* loop = nullptr;
  reg::write_flush* flush = nullptr;  // of the domain; null: what the NIC wrote is not flushed
  // By which memory is shared with peers on this host, outlives the endpoint; null: with none.
  ipc::host_kernel* kernel = nullptr;
  // With it, of device memory: whether peers get ours, which our NIC does not reach and theirs may,
  // and where theirs are kept.
  struct {
    bool are_passed = false;
    reg::dmabuf_registrar* registrar = nullptr;  // of the domain; null: there is none
    reg::import_cache* imports = nullptr;        // of the domain; null: we take none
  } dmabufs{};
  // What waits are measured by, and what makes names that nobody guesses.
  base::clock clock{};
  base::random_source random{};
};

/// How its core objects are opened.
struct endpoint_opening {
  bool waitable = false;  // with file descriptors to sleep on, which cost the core some speed
  bool any_port = false;  // not that of the info, which another endpoint of it has
  link_listener* links = nullptr;  // outlives the endpoint; null: nobody
};

}  // namespace gaudi::proto
