// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/channel/receive_buffers.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/operation/staging_pool.hpp"
#include "proto/transfer/cooperative_copier.hpp"
#include "proto/transfer/cts.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/immediate_copies.hpp"
#include "proto/transfer/pipeline_planner.hpp"
#include "proto/transfer/rail_keys.hpp"
#include "proto/transfer/rail_scheduler.hpp"
#include "proto/transfer/slot_granter.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_flush.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "proto/transfer/write_fence.hpp"

namespace gaudi::proto {

/// Moves the bytes of transfers: by core reads and writes on host memory, and through chunks, with
/// the device's copy engine, where one end is device memory. Copies and wire overlap, chunk by
/// chunk. Between processes on one host there is no wire: both devices use the same slots.
///
/// Not thread safe: the caller holds the domain lock.
class data_mover final : public device_copies::observer {
 public:
  /// What it works with; all of it outlives the mover.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    receive_buffers& receives;
    device_copies& copies;
    packet_channel& channel;
    path_counters& paths;
    transfer_table& table;
    transfer_completion& completion;
    transfer_flush& flush;
    const pipeline_planner& planner;
    slot_granter& slots;
    immediate_copies& immediate;
    cooperative_copier& cooperative;
    direct_rma& direct;
    rail_scheduler& rails;
    rail_keys& keys;
    write_fence& fences;
  };

  data_mover(core::inner_domain& core, const endpoint_settings& config, parts collaborators);
  virtual ~data_mover() = default;
  data_mover(const data_mover&) = delete;
  data_mover& operator=(const data_mover&) = delete;

  /// Hands out as much of the transfer as there is room for; the rest when something of it comes
  /// back, or at retry_stalled(). It may have ended on return.
  void progress(transfer& t);
  /// A received payload goes from its buffer, if it has one, to the transfer's memory. Whether the
  /// buffer is free again already.
  bool copy_out(transfer& t, buffer* holder, const std::byte* payload);
  /// The source has filled a slot of the transfer.
  void fill_from_slot(transfer& t, buffer& slot, const wire::chunk_fields& chunk);
  /// One operation of the core, or a copy that is told as one. 0, -FI_EAGAIN: no room; others are
  /// errors of the core. `slot`: of the peer's, with transfer::slots.
  int post_rma(transfer& t, posted_op& w, void* bytes, std::size_t length, void* descriptor,
               std::size_t offset, std::uint32_t slot);

  /// The same for one that the core gave back undone, and that is not over.
  int post_again(posted_op& w);
  /// The same for one of a rail that was lost: no packet has told the peer of it.
  int post_elsewhere(posted_op& w);

  // What comes back.
  void rma_ended(posted_op& w, int error) {
    if (w.what == posted_op::kind::direct)
      return parts_.direct.ended(static_cast<direct_op&>(w), error);
    if (w.what == posted_op::kind::piece) return piece_completed(static_cast<rma_op&>(w), error);
    if (w.what == posted_op::kind::fence) return fence_completed(static_cast<fence_op&>(w));
    chunk_completed(static_cast<buffer&>(w), error);
  }
  void piece_completed(rma_op& piece, int error);
  void chunk_completed(buffer& b, int error);
  void fence_completed(fence_op& w);
  /// Ends RMA that was to be posted again, on a connection that has failed.
  void give_up(posted_op_list& undone, int error);
  void copied(buffer& b) noexcept override;

  /// Tries those again that had to wait for room.
  void retry_stalled();
  [[nodiscard]] bool has_stalled() const noexcept {
    return !parts_.table.stalled().empty() || !write_backlog_.empty();
  }
  /// Whether something waits for room that nobody tells of. A peer that is stopped keeps things
  /// waiting for as long as it likes, and no thread is to be busy meanwhile: where the core has
  /// work for that peer, the end of it, which is told, comes before any room.
  [[nodiscard]] bool waits_unnoticed() const noexcept;

  /// Ends what devices still do for the connection, which has failed; its transfers are not ended.
  void connection_down(const connection& c);
  /// All connections have ended, so those that are stalled wait for a helper.
  void await_helpers();
  /// As buffer_pool::free_all.
  void free_buffers() noexcept { chunks_.free_all(); }

 private:
  friend struct endpoint_audit;  // tests/sim

  enum class issue_result {
    issued,
    waiting,   // for something that is under way
    no_room,   // in the core or in the engine
    no_chunk,  // of the peer's quota
  };
  issue_result issue_direct(transfer& t, const local_memory::place& place,
                            const wire::segment& target, std::size_t limit);
  [[nodiscard]] int register_piece(const transfer& t, rma_op& piece, void* bytes);
  issue_result issue_next(transfer& t);
  issue_result no_rail_for(transfer& t, const rail_keys::way& by);
  [[nodiscard]] std::optional<std::size_t> choose_rail(transfer& t, const rail_keys::way& by,
                                                       std::size_t length);
  int post_on_rail(transfer& t, posted_op& w, rma_request& operation, std::size_t offset);
  int give_descriptor(const transfer& t, posted_op& w, rma_request& operation);
  int post_to_core(transfer& t, posted_op& w, void* bytes, std::size_t length, void* descriptor,
                   std::size_t offset, const wire::segment& target);
  issue_result issue_by_engine(transfer& t, const local_memory::place& place, std::size_t length);
  issue_result issue_staged(transfer& t, std::size_t limit);
  [[gnu::always_inline]] void count_piece(transfer& t, const local_memory::place& place, bool local,
                                          std::size_t length);
  void note_remainder(transfer& t) noexcept;
  [[nodiscard]] buffer* acquire_chunk(const connection& c) noexcept;
  issue_result no_chunk_for(transfer& t);

  void all_copied(buffer& b);
  void chunk_loaded(transfer& t, buffer& b, int error);
  void send_chunk(const transfer& t, const buffer& b);
  void slot_emptied(transfer& t, buffer& slot, int error);
  void piece_finished(transfer& t, std::size_t length, int error);
  void all_moved(transfer& t);
  [[nodiscard]] bool must_retry(const transfer& t) const noexcept;

  core::inner_domain& core_;
  const endpoint_settings& config_;
  const parts parts_;
  const std::size_t shared_out_from_;  // rail_scheduler::threshold, which is looked at all the time
  // For our side of a transfer, given to peers until they are done.
  staging_pool chunks_;
  std::vector<buffer*> write_backlog_;  // loaded chunks that the core had no room for
  std::size_t tried_in_vain_ = 0;       // of the stalled, since one got on or a chunk came back
};

}  // namespace gaudi::proto
