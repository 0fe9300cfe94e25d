// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Long host memory between processes on one host, copied by both: the sink reads the source's
// memory piece by piece from the first on, and whenever the source's process looks at its own
// progress it takes the next piece and writes it to the sink's. One CPU copies at the rate of one
// CPU; a process that waits for its message to leave has one to give.
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// Some 10 to 30 us: whoever has the last piece is not waited for long.
constexpr std::uint32_t piece_length = 128 * 1024;
// Below that it is over before the other has heard of it.
constexpr std::size_t min_length = std::size_t{2} * piece_length;

// Who helps takes it from who copies. (Not what this process may use: ranks are often bound to one
// each.)
bool machine_has_one_cpu() noexcept {
  static const bool only_one = ::sysconf(_SC_NPROCESSORS_ONLN) == 1;
  return only_one;
}

}  // namespace

// A peer that sleeps is not woken for it.
void endpoint::request_assist(connection& c, const wire::rts_fields& rts, transfer& t) {
  std::byte* const to = t.memory.single_host();
  if (t.length < min_length || t.via_copy_engine || !to || rts.segment_count != 1 ||
      rts.segments[0].length < t.length ||
      !reaches(t, t.memory[0].address, rts.segments[0].address))
    return;
  if (c.shm->peer_cma_state() != ipc::cma_state::yes || c.shm->peer_sleeps() ||
      machine_has_one_cpu())
    return;
  t.cooperative = c.shm->cooperative_copies_to_us().begin(t.length, piece_length);
  if (!t.cooperative) return;
  t.shm_of_copy = c.shm;
  wire::copy_assist_fields fields{};
  fields.source_operation = t.peer_operation;
  fields.address = t.memory[0].address;
  fields.length = t.length;
  fields.piece = piece_length;
  fields.words = t.cooperative->words;
  fields.number = t.cooperative->copy.plan().number;
  send_control(c, wire::kind::copy_assist, 0, fields, sizeof fields);
}

// One piece at a time, for the sake of those who wait for this thread.
void endpoint::copy_cooperatively(transfer& t) {
  if (t.in_flight != 0) return;
  if (t.ending) return try_retire(t);
  ipc::cooperative_copy& copy = t.cooperative->copy;
  if (copy.error()) return copy_alone(t);
  rma_op* const posted_op = piece_pool_.create(t, std::size_t{0});
  if (const auto piece = posted_op ? copy.take() : std::nullopt) {
    const auto place = t.memory.at(piece->offset);
    posted_op->length = piece->length;
    if (const int ret = shm_copy(t, *posted_op, place.segment->host() + place.within, piece->length,
                                 t.remote.front().address + piece->offset)) {
      piece_pool_.destroy(posted_op);
      copy.fail(-ret);
      return copy_alone(t);
    }
    ++t.in_flight;
    return count_piece(t, place, true, piece->length);
  }
  if (posted_op) piece_pool_.destroy(posted_op);
  if (t.finished + copy.helped() >= t.length) return complete(t, 0);
  stall(t);
}

// All of it: a piece that failed is missing somewhere.
void endpoint::copy_alone(transfer& t) {
  if (!helper_is_through(t)) return stall(t);
  end_cooperative_copy(t);
  t.finished = 0;
  progress_transfer(t);
}

// A helper that is at a piece writes to the application's memory: it is through in a moment, or,
// where its process was stopped just then, when that goes on or ends. Nobody is told before.
bool endpoint::helper_is_through(transfer& t) noexcept {
  return t.cooperative->copy.stop() || t.shm_of_copy->peer_has_ended();
}

void endpoint::end_cooperative_copy(transfer& t) noexcept {
  t.shm_of_copy->cooperative_copies_to_us().end(t.cooperative->words);
  t.cooperative.reset();
  t.shm_of_copy.reset();
}

// Its connection goes, and the helper is not through.
void endpoint::outlive_connection(transfer& t) noexcept {
  t.connection->transfers.erase(t.connection->transfers.iterator_to(t));
  t.connection = nullptr;
}

// All connections have ended, so those that are stalled wait for a helper.
void endpoint::await_helpers() {
  const auto tell = config_.clock.now() + std::chrono::seconds(1);
  bool told = false;
  while (!stalled_.empty()) {
    retry_stalled();
    if (!told && config_.clock.now() > tell) {
      told = true;
      GAUDI_WARN(EP_CTRL,
                 "waiting to close: a process of this host was stopped in the middle of a copy to "
                 "our memory; let it go on (SIGCONT), or end it\n");
    }
    std::this_thread::yield();
  }
}

void endpoint::start_assist(connection& c, const wire::copy_assist_fields& request) {
  if (!c.shm || request.words >= ipc::cooperative_copies::most || request.piece == 0)
    return malformed(c, "request for help");
  const transfer* const t = transfers_.find(request.source_operation);
  if (!t || t->connection != &c || t->ending || t->role != transfer_role::source || !c.shm->cma() ||
      !t->memory.single_host() || request.length > t->memory.length())
    return;
  pending_assists_.push_back(
      {t->id,
       ipc::cooperative_copy(c.shm->copy_state_of_peer()[request.words],
                             {request.number, request.piece, request.length}),
       request.address});
}

// The oldest one, one piece of it.
void endpoint::help_peers() {
  if (!help_peer(pending_assists_.front())) pending_assists_.erase(pending_assists_.begin());
}

// Whether there may be more of it to copy.
bool endpoint::help_peer(pending_assist& h) {
  const transfer* const t = transfers_.find(h.source);
  const ipc::peer_process* const sink = t && !t->ending ? t->connection->shm->cma() : nullptr;
  if (!sink) return false;
  const auto piece = h.copy.take_assist();
  if (!piece) return false;
  const int ret =
      sink->write(h.to + piece->offset, t->memory.single_host() + piece->offset, piece->length);
  h.copy.gave(*piece, -ret);
  if (ipc::peer_process::is_denial(ret)) disable_cma(*t->connection, ret);
  if (ret) return false;
  ++paths_.cma_ops;
  paths_.cma_bytes += piece->length;
  return true;
}

}  // namespace gaudi::proto
