// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/id_table.hpp"
#include "base/outstanding_page.hpp"
#include "base/path_reasons.hpp"
#include "core/inner_domain.hpp"
#include "ipc/cooperative_copy.hpp"
#include "ipc/shm_channel.hpp"
#include "proto/operation/completion_spec.hpp"
#include "proto/operation/granted_slots.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/wire/wire.hpp"
#include "reg/import_cache.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

class connection;
struct buffer;
struct transfer;

/// A core RMA operation directly on the application's memory.
struct rma_op : posted_op {
  rma_op(transfer& t, std::size_t at, std::size_t n) noexcept
      : posted_op(kind::piece), owner(&t), offset(at), length(n) {}
  transfer* owner;
  std::size_t offset;  // in the transfer
  std::size_t length;
  core::inner_mr
      local;  // registered for this piece alone, where the application gave no descriptor
  const reg::other_nic* local_at = nullptr;  // with whom that is; null: with the domain's own
};

/// A read behind what a transfer has written over a rail.
struct fence_op : posted_op {
  fence_op(transfer& t, std::size_t rail_place, buffer* of) noexcept
      : posted_op(kind::fence),
        owner(&t),
        place(static_cast<std::uint8_t>(rail_place)),
        chunk(of) {}
  transfer* owner;  // null: it has ended
  std::uint8_t place;
  buffer* chunk;  // behind this alone, which fills a slot; null: behind all
};

/// What a transfer has of rails over other NICs: rail_keys' own, but for `written`.
struct transfer_rails {
  struct at {
    bool is_asked = false;
    std::uint64_t asked_slot = 0;                          // with slots: whose key that was
    bool is_refused = false;                               // the NIC does not reach the memory
    std::uint8_t count = 0;                                // of the keys; 0: not known
    std::array<std::uint64_t, wire::max_segments> keys{};  // of the peer's segments there
  };
  std::array<at, wire::max_rails> at_peer;  // of the peer's NICs, by rail::peer_nic
  std::uint16_t refused_here = 0;           // NICs here that do not take the memory, by their bits
  /// By place: rail::number of who wrote since the last fence; 0: nobody.
  std::array<std::uint32_t, wire::max_rails> written{};
  /// What the peer was told of our memory.
  struct told_keys {
    std::size_t nic = 0;  // reg::other_nic::number
    std::uint8_t count = 0;
    std::array<std::uint64_t, wire::max_segments> keys{};
  };
  std::vector<told_keys> told;
  std::vector<core::inner_mr> exposed;  // registered for the peer for this operation
};

/// What moves bytes at this end.
enum class transfer_strategy : std::uint8_t {
  none,         // the peer does, or nothing has to
  pull,         // core reads from the peer's memory into ours
  push,         // core writes from our memory to the peer's
  recv_staged,  // the peer writes into our staging slots, we copy them to our device
  copy_out,     // a received message is being copied to our device
};

/// What the peer may do to a transfer.
enum class transfer_role : std::uint8_t {
  sink,    // a receive, an RMA write at its target, a read whose answer is on its way
  source,  // a message, an RMA write, or a read at its target: may be granted a place to write to
  reader,  // an RMA read that waits for its answer
};

/// An operation that takes more than one message: a rendezvous at either end, an RMA operation, or
/// a message whose end the peer reports. See rendezvous.hpp for the whole life of one.
struct transfer : boost::intrusive::list_base_hook<> {
  transfer() = default;
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;

  /// What lies from `offset` on in one range of the peer's; nothing behind the last.
  [[nodiscard]] wire::segment remote_at(std::size_t offset) const noexcept {
    for (const wire::segment& s : remote) {
      if (offset < s.length) return {s.address + offset, s.key, s.length - offset};
      offset -= s.length;
    }
    return {};
  }

  /// The peer's slot that the next chunk goes into; null: there is none, or it needs none.
  [[nodiscard]] const wire::segment* next_slot() const noexcept {
    return slots.free.empty() ? nullptr : &remote[slots.free.back()];
  }

  /// With `cooperative`: whether the peer copies no more. A helper that is at a piece writes to the
  /// application's memory: it is through in a moment, or, where its process was stopped just then,
  /// when that goes on or ends. Nobody is told before.
  [[nodiscard]] bool helper_is_through() noexcept;
  /// Once it is through.
  void end_cooperative_copy() noexcept;

  proto::connection* connection = nullptr;
  transfer_role role = transfer_role::sink;
  transfer_strategy strategy = transfer_strategy::none;
  base::id_table<transfer>::id id = 0;
  std::uint64_t peer_operation = 0;
  std::size_t length = 0;  // bytes to move
  local_memory memory;
  // The peer's memory, or its slots. One-sided operations have one.
  boost::container::small_vector<wire::segment, 1> remote;
  /// How far it is.
  struct {
    std::size_t issued = 0;       // bytes handed to core or device
    std::size_t finished = 0;     // of them, done
    std::uint32_t in_flight = 0;  // chunks and pieces handed out
    bool starved = false;         // stalled for want of a chunk, and for nothing else
  } moved;
  /// Set when the first chunk is due; see pipeline_planner.
  struct pipeline_params {
    std::size_t chunk = 0;  // bytes that go through a chunk, or to a device's engine, at a time
    std::size_t depth = 0;  // of them in flight
  } pipeline;
  /// How it ends.
  struct {
    int status = 0;  // 0 or a positive FI_E*
    completion_spec completion;
    cq_entry entry;  // what the application will be told, besides status
  } outcome;
  struct {
    bool begun = false;       // all that is left is for `posted` and `copies` to come back
    bool peer_ended = false;  // the peer has said that it is done with it
    // All over but for the peer, which may be writing into our slots still.
    bool slots_on_loan = false;
    bool tell_peer = false;  // send `fin` to peer_operation at the end
  } ending;
  struct {
    bool nic_wrote = false;           // to our device memory: flush before that is reported
    bool under_way = false;           // in flight is its `fin`, which flushes
    std::uint16_t by_other_nics = 0;  // with nic_wrote: which of these did, by their numbers
  } flush;
  /// What the core may have of our memory, and has.
  struct {
    bool zero_copy = true;                                 // what it reaches of our device memory
    base::path_reason why = base::path_reason::undecided;  // of a sink: the way that is taken
    // It moves bytes of it, so what follows them must not go through shared memory.
    bool via_core = false;
    std::vector<core::inner_mr> exposed;  // registered for the peer for this operation
    std::vector<std::unique_ptr<reg::region>> implicit;  // device memory, likewise
    std::unique_ptr<transfer_rails> at_other_nics;
  } reach;
  /// Of a pull.
  struct {
    bool via_copy_engine = false;  // the device copies from memory of its own to its own
    bool via_nic = false;          // our NIC reads the peer's device memory by its dma-buf
    std::vector<reg::import_cache::handle> imported;  // via_nic: of each segment in `remote`
    std::optional<ipc::cooperative_copies::begun> cooperative;  // the peer may copy along
    std::shared_ptr<ipc::shm_channel> shm_of_copy;  // of its words; the connection may be gone
  } pull;
  /// Of a transfer through staging slots.
  struct {
    bool in_use = false;      // push: the peer's segments are slots, to be refilled
    bool are_shared = false;  // they are in memory that we share with the peer
    bool are_wanted = false;  // recv_staged: more of ours; in the grant_queue
    std::vector<std::uint32_t> free;
    granted_slots granted;  // recv_staged: ours, that the peer may fill
  } slots;
  /// Of an RMA operation here.
  struct {
    bool delivery = false;  // writes of the core itself end when they are in the peer's memory
    // Direct, and the core had no room for the rest yet; counted by the connection.
    bool partially_issued = false;
    bool blocks_later = false;  // later operations must not overtake it, counted in the same way
    std::optional<std::uint64_t> event_data;  // direct RMA write with remote CQ data
  } rma;

  boost::intrusive::list_member_hook<> stalled_hook;
  // Linked: an RMA operation of the peer on a region of ours.
  boost::intrusive::list_member_hook<> for_peer_hook;
  base::outstanding::record_owner record;  // what others see of it (operation_records)
};

/// In the order in which they are tried again.
using stalled_list = boost::intrusive::list<
    transfer, boost::intrusive::member_hook<transfer, boost::intrusive::list_member_hook<>,
                                            &transfer::stalled_hook>>;

using for_peer_list = boost::intrusive::list<
    transfer,
    boost::intrusive::member_hook<transfer, boost::intrusive::list_member_hook<>,
                                  &transfer::for_peer_hook>,
    boost::intrusive::constant_time_size<false>>;

using transfer_list = boost::intrusive::list<transfer, boost::intrusive::constant_time_size<false>>;

}  // namespace gaudi::proto
