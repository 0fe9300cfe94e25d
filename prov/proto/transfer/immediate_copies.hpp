// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/channel/core_transport.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

/// Pieces of transfers that this thread itself copies: from process to process (CMA), or by our NIC
/// from a dma-buf of a peer's on this host. Each takes its time at once; its end is told at the
/// next progress, as that of the core's operations is.
///
/// Not thread safe: the caller holds the domain lock.
class immediate_copies {
 public:
  /// Both outlive this.
  immediate_copies(core_transport& core, device_copies& copies) noexcept
      : core_(core), copies_(copies) {}

  /// Whether this process can copy between the two addresses, the second of them the peer's. What
  /// may be a Gaudi1's memory goes the way that is right for that.
  [[nodiscard]] static bool reaches(const transfer& t, std::uint64_t local,
                                    std::uint64_t remote) noexcept;
  /// Whether the peer has not left: until it does, what a copy that has ended now has read was the
  /// peer's source, and no other use of that memory.
  [[nodiscard]] static bool peer_is_there(const transfer& t) noexcept;
  /// Copies as the transfer's strategy says, where reaches(). -FI_EAGAIN: the peer is not reached
  /// any more. -FI_ENOMEM.
  int copy_by_cma(const transfer& t, posted_op& w, void* bytes, std::size_t length,
                  std::uint64_t remote);
  /// Reads from the peer's device memory. -FI_ENOMEM.
  int read_by_nic(const transfer& t, posted_op& w, void* bytes, void* descriptor,
                  std::size_t length, const wire::segment& from);
  /// The kernel does not let us at the peer's memory any more. What is under way goes by the core
  /// then, whose keys both ends have, if it reads safely; what begins later, through slots.
  static void disable_cma(connection& c, int why) noexcept;
  /// Whether no more of the transfer can be read but by the core.
  [[nodiscard]] static bool leaves_reading_to_core(const transfer& t) noexcept {
    return t.strategy == transfer_strategy::pull && !t.pull.via_copy_engine && !t.pull.via_nic &&
           !(t.connection->shm && t.connection->shm->cma());
  }

  [[nodiscard]] bool empty() const noexcept { return ended_.empty(); }
  /// Calls completed(operation, error) for all that were made by now. No connection is to blame for
  /// these errors.
  template <class Completed>
  void tell_ends(Completed&& completed) {
    std::vector<ended_copy> ended;
    ended.swap(ended_);
    for (const ended_copy& e : ended) completed(*e.operation, e.error);
  }

 private:
  struct ended_copy {
    posted_op* operation;
    int error;  // positive FI_E*
  };
  static int copy_once(const transfer& t, void* bytes, std::size_t length,
                       std::uint64_t remote) noexcept;

  core_transport& core_;
  device_copies& copies_;
  std::vector<ended_copy> ended_;
};

}  // namespace gaudi::proto
