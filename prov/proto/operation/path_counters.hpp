// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/path_reasons.hpp"

namespace gaudi::proto {

/// Which way the bytes of a domain went. Counted at the end that moves them (the sender of an eager
/// message, the side of a rendezvous that reads or writes). Guarded by the domain lock.
struct path_counters {
  std::uint64_t eager_ops = 0;  // copied through message buffers
  std::uint64_t eager_bytes = 0;
  // The core reads or writes the application's memory itself: no copy here.
  std::uint64_t direct_ops = 0;
  std::uint64_t direct_bytes = 0;
  std::uint64_t staged_ops = 0;  // chunks through bounce buffers
  std::uint64_t staged_bytes = 0;
  std::uint64_t zero_copy_ops = 0;  // of the direct ones: on device memory
  std::uint64_t zero_copy_bytes = 0;
  std::uint64_t cma_ops = 0;  // from process to process on this host
  std::uint64_t cma_bytes = 0;
  std::uint64_t shm_ops = 0;     // of the eager and staged ones: through memory shared with a peer
  std::uint64_t engine_ops = 0;  // within a device, by its engine: between endpoints of one process
  std::uint64_t engine_bytes = 0;
  // Of the direct ones: by a dma-buf that a peer on this host passed.
  std::uint64_t dmabuf_ipc_ops = 0;
  std::uint64_t dmabuf_ipc_bytes = 0;
  // Operations that the caller has to start again.
  struct {
    std::uint64_t peer = 0;   // it had granted no credit
    std::uint64_t local = 0;  // sends here had no buffer or no room in the core
  } stalls;
  struct {
    std::uint64_t made = 0;
    std::uint64_t lost = 0;         // failed, or ended by the peer
    std::uint64_t closed = 0;       // by agreement (connection_closer)
    std::uint64_t interrupted = 0;  // whose core connection was lost
    std::uint64_t resumed = 0;      // of these: by another one, with nothing lost
  } connections;
  // Transfers of messages by the reason for their way, from base::path_reason 1 on. Counted at the
  // sink, which chooses, each time that it does.
  std::array<std::uint64_t, base::path_reason_count> chosen{};
  /// Beside the connections themselves (rail_scheduler).
  struct {
    std::uint64_t ops = 0;  // of the direct and staged ones
    std::uint64_t bytes = 0;
    std::uint64_t made = 0;
    std::uint64_t lost = 0;  // what they had left to do went another way
  } rails;
  /// Given to the core a second time, on another connection of it than the one that was lost.
  struct {
    std::uint64_t packets = 0;
    std::uint64_t rma = 0;
    std::uint64_t elsewhere = 0;  // connections that were resumed over another link
  } again;

  void count_choice(base::path_reason why) noexcept {
    if (why != base::path_reason::undecided) ++chosen[static_cast<std::size_t>(why) - 1];
  }
};

}  // namespace gaudi::proto
