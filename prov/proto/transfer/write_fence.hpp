// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/object_pool.hpp"
#include "core/inner_domain.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/session/rail.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// When what was written to one NIC of the peer's is in its memory, where its packets come by
/// another. The end of a write says that the NIC has it, and a packet may be read before that has
/// put it there. A read on the same connection is carried out behind the writes, by the same NIC,
/// which cannot overtake what it wrote itself (PCI Express: completions stay behind posted writes);
/// so the peer is told when one is back. A rail that is lost needs none once the peer has closed
/// its end.
///
/// Over a stream a write has ended when it is in the peer's memory.
///
/// Not thread safe: the caller holds the domain lock.
class write_fence {
 public:
  /// Eight bytes that a NIC reads for a peer, and that it reads a peer's into.
  struct cell {
    std::uint64_t bytes = 0;
    core::inner_mr mr;
  };

  write_fence(core::inner_domain& core, core_transport& transport, rail_scheduler& rails) noexcept
      : core_(core), transport_(transport), rails_(rails) {}

  /// That of a NIC (null: the domain's own), made at the first call. Null: there is none.
  cell* cell_at(reg::other_nic* nic);

  /// Whether a rail's writes need one.
  [[nodiscard]] bool is_due(const connection& c, const rail& r) const noexcept {
    return core_.over_rdma() && r.peer_nic != c.at_core.rails->rails.front().peer_nic;
  }
  /// The rail at `place` has been given a write of the transfer.
  void wrote(transfer& t, std::size_t place) const noexcept;
  /// Reads behind all that the transfer has written so far, whether or not that has ended. Whether
  /// it has to wait for reads: they are counted as in flight.
  [[nodiscard]] bool begin(transfer& t) {
    if (!t.reach.at_other_nics) [[likely]]
      return false;
    return t.connection && t.connection->goes_on() && begin_on_rails(t);
  }
  /// Whether the peer may only hear of a chunk of the transfer that was written over the rail at
  /// `place`, which has ended, once a read has followed it.
  [[nodiscard]] bool is_due_behind_chunk(const transfer& t, std::size_t place) const noexcept;
  /// That read. It ends as one operation of kind::fence. False: no memory for it.
  [[nodiscard]] bool begin_behind(buffer& chunk, std::size_t place);
  /// Posts those that the rail had no room for.
  void post_waiting(connection& c, rail& r);
  /// It is over. The transfer that it was for; null: that has ended.
  [[nodiscard]] transfer* finish(fence_op& w) noexcept;
  /// Ends those of a rail's that are not posted, with their transfers.
  void give_up(rail& r) noexcept;

  /// The peers are gone.
  void close() noexcept { cells_.clear(); }

 private:
  [[nodiscard]] bool begin_on_rails(transfer& t);
  [[nodiscard]] int post(connection& c, rail& r, fence_op& w);

  core::inner_domain& core_;
  core_transport& transport_;
  rail_scheduler& rails_;
  base::object_pool<fence_op> operations_;
  std::vector<std::unique_ptr<cell>> cells_;  // by reg::other_nic::number; the first: our own NIC's
};

}  // namespace gaudi::proto
