// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/cooperative_copier.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "proto/transfer/immediate_copies.hpp"

namespace gaudi::proto {
namespace {

// Of pieces: below that it is over before the other has heard of it.
constexpr std::size_t min_pieces = 2;

}  // namespace

// A peer that sleeps is not woken for it.
void cooperative_copier::request(connection& c, const wire::rts_fields& rts, transfer& t) {
  if (!c.shm) return;
  std::byte* const to = t.memory.single_host();
  const std::uint32_t piece = c.shm->kernel().copy_piece();
  if (t.length < min_pieces * piece || t.pull.via_copy_engine || !to || rts.segment_count != 1 ||
      rts.segments[0].length < t.length ||
      !immediate_copies::reaches(t, t.memory[0].address, rts.segments[0].address))
    return;
  if (c.shm->peer_cma_state() != ipc::cma_state::yes || c.shm->peer_sleeps() ||
      c.shm->kernel().has_one_cpu())
    return;
  t.pull.cooperative = c.shm->cooperative_copies_to_us().begin(t.length, piece);
  if (!t.pull.cooperative) return;
  t.pull.shm_of_copy = c.shm;
  wire::copy_assist_fields fields{};
  fields.source_operation = t.peer_operation;
  fields.address = t.memory[0].address;
  fields.length = t.length;
  fields.piece = piece;
  fields.words = t.pull.cooperative->words;
  fields.number = t.pull.cooperative->copy.plan().number;
  channel_.send_control(c, wire::kind::copy_assist, 0, fields, sizeof fields);
}

// One piece at a time, for the sake of those who wait for this thread.
bool cooperative_copier::copy(transfer& t) {
  if (t.moved.in_flight != 0) return true;
  if (t.ending.begun) return completion_.try_retire(t), true;
  ipc::cooperative_copy& shared = t.pull.cooperative->copy;
  if (shared.error()) return !goes_on_alone(t);
  rma_op* const op = table_.pieces().create(t, std::size_t{0}, std::size_t{0});
  if (const auto piece = op ? shared.take() : std::nullopt) {
    if (copy_piece(t, *op, *piece)) return true;
    return !goes_on_alone(t);
  }
  if (op) table_.pieces().destroy(op);
  if (t.moved.finished + shared.helped() >= t.length) return completion_.complete(t, 0), true;
  table_.stall(t);
  return true;
}

// False: the piece is missing.
bool cooperative_copier::copy_piece(transfer& t, rma_op& op,
                                    const ipc::cooperative_copy::piece& piece) {
  const auto place = t.memory.at(piece.offset);
  op.length = piece.length;
  // Another copy may have met with a refusal since this one began.
  const bool may_copy = t.connection->shm->cma() != nullptr;
  const int ret = may_copy
                      ? copies_.copy_by_cma(t, op, place.segment->host() + place.within,
                                            piece.length, t.remote.front().address + piece.offset)
                      : -FI_EAGAIN;
  if (ret) {
    table_.pieces().destroy(&op);
    t.pull.cooperative->copy.fail(-ret);
    return false;
  }
  ++t.moved.in_flight;
  ++paths_.cma_ops;
  paths_.cma_bytes += piece.length;
  return true;
}

// All of it: a piece that failed is missing somewhere.
bool cooperative_copier::goes_on_alone(transfer& t) {
  if (!t.helper_is_through()) {
    table_.stall(t);
    return false;
  }
  t.end_cooperative_copy();
  t.moved.finished = 0;
  return true;
}

void cooperative_copier::start_assist(connection& c, const wire::copy_assist_fields& request) {
  if (!c.shm || request.words >= ipc::cooperative_copies::most || request.piece == 0)
    return connections_.malformed(c, "request for help");
  const transfer* const t = table_.find_active(c, request.source_operation);
  if (!t || t->role != transfer_role::source || !c.shm->cma() || !t->memory.single_host() ||
      request.length > t->memory.length())
    return;
  pending_assists_.push_back(
      {t->id,
       ipc::cooperative_copy(c.shm->copy_state_of_peer()[request.words],
                             {request.number, request.piece, request.length}),
       request.address});
}

// The oldest one, one piece of it.
void cooperative_copier::help_peers() {
  if (!help_peer(pending_assists_.front())) pending_assists_.erase(pending_assists_.begin());
}

// Whether there may be more of it to copy.
bool cooperative_copier::help_peer(pending_assist& h) {
  const transfer* const t = table_.find(h.source);
  const ipc::peer_memory* const sink = t && !t->ending.begun ? t->connection->shm->cma() : nullptr;
  if (!sink) return false;
  const auto piece = h.copy.take_assist();
  if (!piece) return false;
  const int ret = copy::copy_router::write_peer(
      *sink, h.to + piece->offset, t->memory.single_host() + piece->offset, piece->length);
  h.copy.gave(*piece, -ret);
  if (ipc::peer_process::is_denial(ret)) immediate_copies::disable_cma(*t->connection, ret);
  if (ret) return false;
  ++paths_.cma_ops;
  paths_.cma_bytes += piece->length;
  return true;
}

}  // namespace gaudi::proto
