// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "ipc/cooperative_copy.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/transfer/immediate_copies.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// Long host memory between processes on one host, copied by both: the sink reads the source's
/// memory piece by piece from the first on, and whenever the source's process looks at its own
/// progress it takes the next piece and writes it to the sink's. One CPU copies at the rate of one
/// CPU; a process that waits for its message to leave has one to give.
///
/// Not thread safe: the caller holds the domain lock.
class cooperative_copier {
 public:
  cooperative_copier(connection_manager& connections, packet_channel& channel,
                     transfer_table& table, transfer_completion& completion,
                     immediate_copies& copies, path_counters& paths) noexcept
      : connections_(connections),
        channel_(channel),
        table_(table),
        completion_(completion),
        copies_(copies),
        paths_(paths) {}

  /// At the sink, which is about to pull: asks the source for help where that is worth it, with
  /// transfer::cooperative then. A peer that sleeps is not woken for it.
  void request(connection& c, const wire::rts_fields& rts, transfer& t);
  /// Goes on with a transfer::cooperative. False: something went wrong, and the transfer, which is
  /// not cooperative any more, starts over.
  [[nodiscard]] bool copy(transfer& t);

  /// At the source: the peer asks for help.
  void start_assist(connection& c, const wire::copy_assist_fields& request);
  /// Copies a piece for the peer that asked first.
  void help_peers();
  [[nodiscard]] bool any_to_help() const noexcept { return !pending_assists_.empty(); }

 private:
  /// A copy of a peer's that it asked us to help with.
  struct pending_assist {
    transfer_table::id source;  // whose memory it copies
    ipc::cooperative_copy copy;
    std::uint64_t to;  // in the peer's memory
  };

  bool copy_piece(transfer& t, rma_op& op, const ipc::cooperative_copy::piece& piece);
  bool goes_on_alone(transfer& t);
  bool help_peer(pending_assist& h);

  connection_manager& connections_;
  packet_channel& channel_;
  transfer_table& table_;
  transfer_completion& completion_;
  immediate_copies& copies_;
  path_counters& paths_;
  std::vector<pending_assist> pending_assists_;  // the oldest first
};

}  // namespace gaudi::proto
