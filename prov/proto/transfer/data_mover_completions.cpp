// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What comes back to the data mover: pieces and chunks of the core, done or to be posted again,
// copies of devices, slots that sources have filled, and received payloads.
#include <rdma/fi_errno.h>

#include <utility>

#include "base/make_room.hpp"
#include "copy/cpu_copy.hpp"
#include "proto/transfer/data_mover.hpp"

namespace gaudi::proto {
namespace {

// Of a chunk in a slot: whether the peer hears of it when it is there. On one connection the packet
// can follow at once, but not where that may be lost and the packet come by another NIC.
bool is_told_at_end(const transfer& t, std::uint8_t rail) noexcept {
  return !t.slots.are_shared && t.strategy == transfer_strategy::push &&
         (rail > 1 || (t.connection && t.connection->session.may_move));
}

}  // namespace

void data_mover::piece_completed(rma_op& piece, int error) {
  transfer* t = piece.owner;
  const std::size_t length = piece.length;
  parts_.table.pieces().destroy(&piece);
  if (t) piece_finished(*t, length, error);
}

void data_mover::chunk_completed(buffer& b, int error) {
  transfer* t = b.owner;
  const std::uint8_t rail = std::exchange(b.rail, 0);
  if (t && !error && t->strategy == transfer_strategy::pull && !t->ending.begun) {
    const int ret =
        parts_.copies.start(b, 0, t->memory, b.offset, b.length, copy::direction::host_to_device);
    if (ret == 0 && b.copies != 0) return;
    error = -ret;
  }
  if (t && !error && t->slots.in_use && is_told_at_end(*t, rail)) [[unlikely]] {
    const bool fenced = rail > 1 && rail != posted_op::behind_fence &&
                        parts_.fences.is_due_behind_chunk(*t, rail - std::size_t{1});
    if (fenced && parts_.fences.begin_behind(b, rail - std::size_t{1})) return;
    if (fenced) error = FI_ENOMEM;
    if (!fenced && !t->ending.begun) send_chunk(*t, b);
  }
  const std::size_t length = b.length;
  release_staging(b);
  if (t) piece_finished(*t, length, error);
}

int data_mover::post_again(posted_op& w) {
  w.rail = 0;
  if (w.what == posted_op::kind::direct)
    return parts_.direct.post_again(static_cast<direct_op&>(w));
  if (w.what == posted_op::kind::chunk) {
    auto& b = static_cast<buffer&>(w);
    return post_rma(*b.owner, b, b.bytes, b.length, b.descriptor(), b.offset, b.slot);
  }
  auto& piece = static_cast<rma_op&>(w);
  transfer& t = *piece.owner;
  const auto place = t.memory.at(piece.offset);
  void* const descriptor =
      piece.local && !piece.local_at ? piece.local.descriptor() : place.segment->core_descriptor();
  return post_rma(t, piece, reinterpret_cast<void*>(place.address()), piece.length, descriptor,
                  piece.offset, 0);
}

int data_mover::post_elsewhere(posted_op& w) {
  const int ret = post_again(w);
  if (ret || w.what != posted_op::kind::chunk) return ret;
  const auto& b = static_cast<const buffer&>(w);
  const transfer& t = *b.owner;
  if (t.strategy == transfer_strategy::push && t.slots.in_use && !is_told_at_end(t, b.rail))
    send_chunk(t, b);
  return 0;
}

void data_mover::give_up(posted_op_list& undone, int error) {
  while (!undone.empty()) {
    posted_op& w = undone.front();
    undone.pop_front();
    w.rail = 0;
    if (w.what == posted_op::kind::piece) {
      static_cast<rma_op&>(w).owner = nullptr;
    } else if (w.what == posted_op::kind::chunk) {
      static_cast<buffer&>(w).owner = nullptr;
    }
    rma_ended(w, error);
  }
}

void data_mover::all_copied(buffer& b) {
  transfer* t = b.owner;
  if (!t) {
    // A message: the queue that it stands in sends it.
    b.ready = true;
    return;
  }
  const int error = -b.failed;
  switch (t->strategy) {
    case transfer_strategy::copy_out:
      if (b.what == posted_op::kind::receive) {
        parts_.receives.give_back(b);
      } else {
        parts_.channel.release(b);
      }
      return piece_finished(*t, t->length, error);
    case transfer_strategy::recv_staged:
      return slot_emptied(*t, b, error);
    case transfer_strategy::pull: {
      const std::size_t length = b.length;
      release_staging(b);
      const bool is_lost = t->pull.via_copy_engine && !immediate_copies::peer_is_there(*t);
      return piece_finished(*t, length, is_lost ? FI_ECONNRESET : error);
    }
    case transfer_strategy::push:
      return chunk_loaded(*t, b, error);
    case transfer_strategy::none:
      return;
  }
}

void data_mover::chunk_loaded(transfer& t, buffer& b, int error) {
  int ret = error ? -error : 0;
  if (!ret && !t.ending.begun && t.slots.are_shared) {
    // It is where the peer takes it from.
    send_chunk(t, b);
  } else if (!ret && !t.ending.begun && !base::make_room(write_backlog_)) {
    ret = -FI_ENOMEM;
  } else if (!ret && !t.ending.begun) {
    ret = post_rma(t, b, b.bytes, b.length, b.descriptor(), b.offset, b.slot);
    if (ret == -FI_EAGAIN) {
      write_backlog_.push_back(&b);
      return;
    }
    if (ret == 0) {
      // Behind the write on the same connection: the data is there when this is read. What another
      // rail carries is there at its end.
      if (t.slots.in_use && !is_told_at_end(t, b.rail)) send_chunk(t, b);
      return;
    }
  }
  const std::size_t length = b.length;
  release_staging(b);
  piece_finished(t, length, -ret);
}

void data_mover::send_chunk(const transfer& t, const buffer& b) {
  wire::chunk_fields fields{};
  fields.operation = t.peer_operation;
  fields.offset = b.offset;
  fields.length = static_cast<std::uint32_t>(b.length);
  fields.slot = b.slot;
  parts_.channel.send_control(*t.connection, wire::kind::chunk, behind_data(t), fields,
                              sizeof fields);
}

// A received payload goes from its buffer to device memory. Whether the buffer is free again
// already.
bool data_mover::copy_out(transfer& t, buffer* holder, const std::byte* payload) {
  t.strategy = transfer_strategy::copy_out;
  ++t.moved.in_flight;
  buffer* b = holder;
  std::size_t at = 0;
  if (t.memory.on_device() && !b) {
    // An unexpected message that was copied out of its buffer: the engine needs pinned memory.
    b = parts_.channel.acquire_beyond_limit();
    if (!b) {
      piece_finished(t, 0, FI_ENOMEM);
      return true;
    }
    copy::by_cpu(b->bytes, payload, t.length);
  } else if (b) {
    at = static_cast<std::size_t>(payload - b->bytes);
  }
  if (!t.memory.on_device()) {
    t.memory.write(0, payload, t.length);
    piece_finished(t, t.length, 0);
    return true;
  }
  if (parts_.copies.bring_short(*b, at, t.memory, t.length)) {
    t.flush.nic_wrote = true;
    if (!holder) parts_.channel.release(*b);
    piece_finished(t, t.length, 0);
    return true;
  }
  b->owner = &t;
  b->copies = 0;
  b->failed = 0;
  const int ret =
      parts_.copies.start(*b, at, t.memory, 0, t.length, copy::direction::host_to_device);
  ++parts_.paths.staged_ops;
  parts_.paths.staged_bytes += t.length;
  if (ret == 0 && b->copies != 0) return false;
  if (!holder) parts_.channel.release(*b);
  piece_finished(t, t.length, -ret);
  return true;
}

void data_mover::fill_from_slot(transfer& t, buffer& slot, const wire::chunk_fields& chunk) {
  if (slot.copies != 0) return parts_.connections.malformed(*t.connection, "chunk (slot in use)");
  slot.slot = chunk.slot;
  slot.offset = chunk.offset;
  slot.length = chunk.length;
  slot.failed = 0;
  ++t.moved.in_flight;
  const int ret = parts_.copies.start(slot, 0, t.memory, chunk.offset, chunk.length,
                                      copy::direction::host_to_device);
  if (ret || slot.copies == 0) slot_emptied(t, slot, -ret);
}

void data_mover::slot_emptied(transfer& t, buffer& slot, int error) {
  const std::size_t length = slot.length;
  // Those of a transfer that has failed are kept until its source knows.
  if (!error && !t.ending.begun) parts_.slots.reuse(t, slot);
  piece_finished(t, length, error);
}

inline void data_mover::all_moved(transfer& t) {
  if (t.outcome.status != 0) return parts_.completion.complete(t, 0);
  if (parts_.flush.wants_remote_flush(t)) return parts_.flush.ask_to_flush(t);
  if (t.strategy == transfer_strategy::push && t.peer_operation != 0) {
    // Slots are emptied by the peer, which then says so; final memory is complete now.
    if (!t.slots.in_use)
      parts_.channel.send_fin(*t.connection, t.peer_operation, 0, behind_data(t));
    return;
  }
  parts_.completion.complete(t, 0);
}

void data_mover::piece_finished(transfer& t, std::size_t length, int error) {
  --t.moved.in_flight;
  t.moved.finished += length;
  // Of a write with a connection that was lost meanwhile: the peer, who has all, knows better.
  const bool is_there = t.ending.peer_ended && t.strategy == transfer_strategy::push;
  if (error && !is_there) return parts_.completion.complete(t, error);
  if (t.ending.begun) return parts_.completion.try_retire(t);
  if (t.moved.finished < t.length) return progress(t);
  if (!parts_.fences.begin(t)) all_moved(t);
}

void data_mover::fence_completed(fence_op& w) {
  buffer* const chunk = w.chunk;
  transfer* const t = parts_.fences.finish(w);
  if (chunk) return chunk_completed(*chunk, 0);
  if (!t || --t->moved.in_flight != 0) return;
  t->ending.begun ? parts_.completion.try_retire(*t) : all_moved(*t);
}

void data_mover::copied(buffer& b) noexcept {
  parts_.connections.on_behalf_of(b.owner ? b.owner->connection : nullptr, [&] { all_copied(b); });
}

// A device may still be writing to or reading from the application's memory: that ends by itself,
// soon.
void data_mover::connection_down(const connection& c) {
  const auto is_its = [&](const buffer& b) { return b.owner && b.owner->connection == &c; };
  while (buffer* const b = parts_.copies.find(is_its)) {
    parts_.copies.wait_for(*b);
    const auto kind = b->owner->strategy;
    if (kind == transfer_strategy::copy_out) {
      // All of it was here before the peer went.
      copied(*b);
      continue;
    }
    b->owner = nullptr;
    if (kind != transfer_strategy::recv_staged) release_staging(*b);
  }
  std::erase_if(write_backlog_, [&](buffer* b) {
    if (b->owner->connection != &c) return false;
    release_staging(*b);
    return true;
  });
}

}  // namespace gaudi::proto
