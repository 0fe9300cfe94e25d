// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Moves the bytes of transfers: by core reads and writes on host memory, and through chunks, with
// the device's copy engine, where one end is device memory. Copies and wire overlap, chunk by
// chunk. Between processes on one host there is no wire: both devices use the same slots.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "base/make_room.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// Bytes of a copy within the host, which takes the time of whoever makes it.
constexpr std::size_t local_copy_limit = std::size_t{512} * 1024;

// For a message that tells of data which the core may still be carrying.
std::uint8_t behind(const transfer& t) noexcept {
  return t.connection->shm && t.via_core ? wire::via_core : 0;
}

}  // namespace

// Hands out as much as there is room for.
void endpoint::progress_transfer(transfer& t) {
  // Slots are filled, and buffers drained, as the peer's messages say.
  if (t.strategy != transfer_strategy::pull && t.strategy != transfer_strategy::push) return;
  if (t.cooperative) return copy_cooperatively(t);
  const auto id = t.id;
  while (t.issued < t.length && !t.ending && t.status == 0) {
    const auto place = t.memory.at(t.issued);
    std::size_t limit = std::min(t.length - t.issued, place.left());
    if (!t.slots) limit = std::min({limit, t.remote_at(t.issued).length, core_length_});
    if (t.via_copy_engine) limit = std::min(limit, pipeline_params_of(t).chunk);
    const bool staged = t.slots || (!place.segment->is_host() && !core_takes(t, place, limit));
    const issue_result did = t.via_copy_engine ? issue_by_engine(t, place, limit)
                             : staged          ? issue_staged(t, limit)
                                               : issue_direct(t, place, limit);
    if (did == issue_result::issued) {
      // A chunk that needed no device and could not leave has ended the transfer.
      if (transfers_.find(id) != &t) return;
      continue;
    }
    // Something in flight will come back here; without that, try again later.
    if (did != issue_result::waiting && t.in_flight == 0) {
      t.starved = did == issue_result::no_chunk;
      stall(t);
    }
    if (transfers_.find(id) == &t) note_remainder(t);
    return;
  }
  note_remainder(t);
}

void endpoint::stall(transfer& t) noexcept {
  if (!t.stalled_hook.is_linked()) stalled_.push_back(t);
}

// Nothing may overtake it (data_connection), so that the core sees operations in their order.
void endpoint::note_remainder(transfer& t) noexcept {
  const bool rest = config_.rma_order && !t.slots && t.issued < t.length && !t.ending;
  if (rest == t.partially_issued || !t.connection) return;
  t.partially_issued = rest;
  rest ? ++t.connection->ordered_rma_pending : --t.connection->ordered_rma_pending;
}

// Device memory that the core may have. It takes a short message for host memory and reads it with
// the CPU when it sends, so short ones are staged.
bool endpoint::core_takes(const transfer& t, const local_memory::place& place,
                          std::size_t length) const noexcept {
  const bool inlined = t.strategy == transfer_strategy::push && length <= inline_limit_;
  return t.zero_copy && !inlined && place.segment->core_descriptor();
}

endpoint::issue_result endpoint::issue_direct(transfer& t, const local_memory::place& place,
                                              std::size_t limit) {
  const bool local = !t.via_nic && reaches(t, place.address(), t.remote_at(t.issued).address);
  if (local || t.via_nic) {
    // Each is copied at once: no more of them than is good for those who wait.
    if (t.in_flight != 0) return issue_result::waiting;
    limit = std::min(limit, local_copy_limit);
  }
  rma_op* piece = piece_pool_.create(t, limit);
  if (!piece) return issue_result::no_room;
  void* descriptor = place.segment->core_descriptor();
  auto* bytes = reinterpret_cast<std::byte*>(place.address());
  if (!descriptor && core_.needs_local_mr() && !local) {
    const std::uint64_t access = t.strategy == transfer_strategy::pull ? FI_READ : FI_WRITE;
    auto mr = core_.register_memory(bytes, limit, access);
    if (!mr) {
      piece_pool_.destroy(piece);
      complete(t, -mr.code());
      return issue_result::waiting;
    }
    piece->local = std::move(*mr);
    descriptor = piece->local.descriptor();
  }
  const int ret = post_rma(t, *piece, bytes, limit, descriptor, t.issued, 0);
  if (ret) {
    piece_pool_.destroy(piece);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    complete(t, -ret);
    return issue_result::waiting;
  }
  ++t.in_flight;
  t.issued += limit;
  count_piece(t, place, local, limit);
  return issue_result::issued;
}

void endpoint::count_piece(transfer& t, const local_memory::place& place, bool local,
                           std::size_t length) {
  ++(local ? paths_.cma_ops : paths_.direct_ops);
  (local ? paths_.cma_bytes : paths_.direct_bytes) += length;
  if (t.via_nic) {
    ++paths_.dmabuf_ipc_ops;
    paths_.dmabuf_ipc_bytes += length;
  }
  if (place.segment->is_host()) return;
  ++paths_.zero_copy_ops;
  paths_.zero_copy_bytes += length;
  if (place.segment->owner) place.segment->owner->counted().zero_copy_bytes.add(length);
  if (t.strategy == transfer_strategy::pull) t.nic_wrote = true;
}

buffer* endpoint::acquire_chunk(const connection& c) noexcept {
  return chunks_->acquire(c.remote->chunks, connections_->count());
}

// One that was in use comes back. Where none is, there was no memory for the first.
endpoint::issue_result endpoint::no_chunk_for(transfer& t) {
  if (chunks_->in_use() != 0) return issue_result::no_chunk;
  complete(t, FI_ENOMEM);
  return issue_result::waiting;
}

// A chunk stands for the copy, with none of the bytes.
endpoint::issue_result endpoint::issue_by_engine(transfer& t, const local_memory::place& place,
                                                 std::size_t length) {
  if (t.in_flight >= pipeline_params_of(t).depth) return issue_result::waiting;
  buffer* const b = acquire_chunk(*t.connection);
  if (!b) return no_chunk_for(t);
  b->owner = &t;
  b->length = length;
  b->copies = 0;
  b->failed = 0;
  const int ret = copies_.start_within(*place.segment->owner, *b, place.address(),
                                       t.remote_at(t.issued).address, length);
  if (ret) {
    release_staging(*b);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    complete(t, -ret);
    return issue_result::waiting;
  }
  ++t.in_flight;
  t.issued += length;
  ++paths_.engine_ops;
  paths_.engine_bytes += length;
  return issue_result::issued;
}

endpoint::issue_result endpoint::issue_staged(transfer& t, std::size_t limit) {
  if (t.in_flight >= pipeline_params_of(t).depth) return issue_result::waiting;
  if (t.slots && t.free_slots.empty()) return issue_result::waiting;
  buffer* b = t.shared ? t.connection->slots_out->take(t.remote[t.free_slots.back()].address)
                       : acquire_chunk(*t.connection);
  if (!b) return t.shared ? issue_result::no_room : no_chunk_for(t);
  b->owner = &t;
  b->offset = t.issued;
  b->length = std::min(limit, t.pipeline.chunk);
  b->copies = 0;
  b->failed = 0;
  if (t.slots) {
    b->slot = t.free_slots.back();
    b->length = std::min<std::size_t>(b->length, t.remote[b->slot].length);
  }
  int ret;
  if (t.strategy == transfer_strategy::push) {
    ret = copies_.start(*b, 0, t.memory, b->offset, b->length, copy::direction::device_to_host);
  } else {
    ret = post_rma(t, *b, b->bytes, b->length, b->descriptor(), b->offset, 0);
  }
  if (ret) {
    release_staging(*b);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    complete(t, -ret);
    return issue_result::waiting;
  }
  if (t.slots) t.free_slots.pop_back();
  ++t.in_flight;
  t.issued += b->length;
  ++paths_.staged_ops;
  paths_.staged_bytes += b->length;
  if (t.shared) ++paths_.shm_ops;
  // Without a device segment in it there was nothing to wait for.
  if (t.strategy == transfer_strategy::push && b->copies == 0) copied(*b);
  return issue_result::issued;
}

int endpoint::post_rma(transfer& t, posted_op& w, void* bytes, std::size_t length, void* descriptor,
                       std::size_t offset, std::uint32_t slot) {
  const wire::segment target = t.slots ? t.remote[slot] : t.remote_at(offset);
  if (t.via_nic) return read_by_nic(t, w, bytes, descriptor, length, target);
  if (reaches(t, reinterpret_cast<std::uint64_t>(bytes), target.address))
    return shm_copy(t, w, bytes, length, target.address);
  if (!core_has_room()) [[unlikely]]
    return -FI_EAGAIN;
  t.via_core = true;
  t.connection->core_wrote = t.connection->core_wrote || t.strategy == transfer_strategy::push;
  iovec local{bytes, length};
  fi_rma_iov remote{target.address, length, target.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = w.context();
  const base::cancellation_deferred while_the_core_posts;
  const ssize_t ret = t.strategy == transfer_strategy::pull
                          ? fi_readmsg(t.connection->ep.get(), &message, FI_COMPLETION)
                          : fi_writemsg(t.connection->ep.get(), &message,
                                        FI_COMPLETION | (t.delivery ? FI_DELIVERY_COMPLETE : 0));
  if (ret == 0) list_posted(*t.connection, w);
  return static_cast<int>(ret);
}

void endpoint::piece_completed(rma_op& piece, int error) {
  transfer* t = piece.owner;
  const std::size_t length = piece.length;
  piece_pool_.destroy(&piece);
  if (t) piece_finished(*t, length, error);
}

void endpoint::chunk_completed(buffer& b, int error) {
  transfer* t = b.owner;
  if (t && !error && t->strategy == transfer_strategy::pull && !t->ending) {
    const int ret =
        copies_.start(b, 0, t->memory, b.offset, b.length, copy::direction::host_to_device);
    if (ret == 0 && b.copies != 0) return;
    error = -ret;
  }
  const std::size_t length = b.length;
  release_staging(b);
  if (t) piece_finished(*t, length, error);
}

// All device copies that read or write the buffer have ended.
void endpoint::copied(buffer& b) noexcept {
  on_behalf_of(b.owner ? b.owner->connection : nullptr, [&] { all_copied(b); });
}

void endpoint::all_copied(buffer& b) {
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
        receive_buffers_->give_back(b);
      } else {
        send_buffers_->release(b);
      }
      return piece_finished(*t, t->length, error);
    case transfer_strategy::recv_staged:
      return slot_emptied(*t, b, error);
    case transfer_strategy::pull: {
      const std::size_t length = b.length;
      release_staging(b);
      return piece_finished(*t, length, error);
    }
    case transfer_strategy::push:
      return chunk_loaded(*t, b, error);
    case transfer_strategy::none:
      return;
  }
}

void endpoint::chunk_loaded(transfer& t, buffer& b, int error) {
  int ret = error ? -error : 0;
  if (!ret && !t.ending && t.shared) {
    // It is where the peer takes it from.
    send_chunk(t, b);
  } else if (!ret && !t.ending && !base::make_room(write_backlog_)) {
    ret = -FI_ENOMEM;
  } else if (!ret && !t.ending) {
    ret = post_rma(t, b, b.bytes, b.length, b.descriptor(), b.offset, b.slot);
    if (ret == -FI_EAGAIN) {
      write_backlog_.push_back(&b);
      return;
    }
    if (ret == 0) {
      if (!t.slots) return;
      // Behind the write on the same connection: the data is there when this is read.
      return send_chunk(t, b);
    }
  }
  const std::size_t length = b.length;
  release_staging(b);
  piece_finished(t, length, -ret);
}

void endpoint::send_chunk(const transfer& t, const buffer& b) {
  wire::chunk_fields fields{};
  fields.operation = t.peer_operation;
  fields.offset = b.offset;
  fields.length = static_cast<std::uint32_t>(b.length);
  fields.slot = b.slot;
  send_control(*t.connection, wire::kind::chunk, behind(t), fields, sizeof fields);
}

// A received payload goes from its buffer to device memory. Whether the buffer is free again
// already.
bool endpoint::copy_out(transfer& t, buffer* holder, const std::byte* payload) {
  t.strategy = transfer_strategy::copy_out;
  ++t.in_flight;
  buffer* b = holder;
  std::size_t at = 0;
  if (t.memory.on_device() && !b) {
    // An unexpected message that was copied out of its buffer: the engine needs pinned memory.
    b = send_buffers_->acquire_beyond_limit();
    if (!b) {
      piece_finished(t, 0, FI_ENOMEM);
      return true;
    }
    std::memcpy(b->bytes, payload, t.length);
  } else if (b) {
    at = static_cast<std::size_t>(payload - b->bytes);
  }
  if (!t.memory.on_device()) {
    t.memory.write(0, payload, t.length);
    piece_finished(t, t.length, 0);
    return true;
  }
  if (nic_copies_.copy(*b, at, t.memory, t.length)) {
    t.nic_wrote = true;
    if (!holder) send_buffers_->release(*b);
    piece_finished(t, t.length, 0);
    return true;
  }
  b->owner = &t;
  b->copies = 0;
  b->failed = 0;
  const int ret = copies_.start(*b, at, t.memory, 0, t.length, copy::direction::host_to_device);
  ++paths_.staged_ops;
  paths_.staged_bytes += t.length;
  if (ret == 0 && b->copies != 0) return false;
  if (!holder) send_buffers_->release(*b);
  piece_finished(t, t.length, -ret);
  return true;
}

void endpoint::piece_finished(transfer& t, std::size_t length, int error) {
  --t.in_flight;
  t.finished += length;
  if (error) return complete(t, error);
  if (t.ending) return try_retire(t);
  if (t.finished < t.length) return progress_transfer(t);
  if (wants_remote_flush(t)) return ask_to_flush(t);
  if (t.strategy == transfer_strategy::push && t.peer_operation != 0) {
    // Slots are emptied by the peer, which then says so; final memory is complete now.
    if (!t.slots) send_fin(*t.connection, t.peer_operation, 0, behind(t));
    return;
  }
  complete(t, 0);
}

}  // namespace gaudi::proto
