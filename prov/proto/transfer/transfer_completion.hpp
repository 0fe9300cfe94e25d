// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/channel/packet_channel.hpp"
#include "proto/transfer/slot_granter.hpp"
#include "proto/transfer/transfer_flush.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "proto/transfer/write_fence.hpp"

namespace gaudi::proto {

/// How transfers end: when nothing of theirs is under way any more, flushed where that is due, with
/// a word to the peer that waits for one, and then to the application.
///
/// Has no state of its own. Not thread safe: the caller holds the domain lock.
class transfer_completion {
 public:
  transfer_completion(transfer_table& table, packet_channel& channel, slot_granter& slots,
                      transfer_flush& flush, write_fence& fences) noexcept
      : table_(table), channel_(channel), slots_(slots), flush_(flush), fences_(fences) {}

  /// The operation is over, as soon as nothing handed out is still under way. `status`: 0 or a
  /// positive FI_E*; the first one counts. The transfer may be gone on return.
  void complete(transfer& t, int status);
  /// Something of it came back: it is over if it is complete and this was the last.
  void try_retire(transfer& t);
  /// Gives the transfer's things back; tells nobody. It is gone on return.
  void free(transfer& t);

  /// The `fin` that flushes has left or failed.
  void fin_left(std::uint32_t operation, int error);
  /// What is under way with the connection ends with this error.
  void connection_down(connection& c, int error);
  /// Devices have been lost: what is under way on them ends here; what a peer does not know of yet
  /// ends there when its word comes.
  void end_lost();

 private:
  [[gnu::always_inline]] void tell_peer(const transfer& t);
  void end_by_loss(transfer& t);

  transfer_table& table_;
  packet_channel& channel_;
  slot_granter& slots_;
  transfer_flush& flush_;
  write_fence& fences_;
};

}  // namespace gaudi::proto
