// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/data_mover.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/probes.hpp"

namespace gaudi::proto {
namespace {

// Bytes of a copy within the host, which takes the time of whoever makes it.
constexpr std::size_t local_copy_limit = std::size_t{512} * 1024;

// Device memory that the core may have. Up to its limit it takes what it sends for host memory and
// reads it with the CPU, so that is staged.
bool core_takes(const transfer& t, const local_memory::place& place, std::size_t length,
                std::size_t inline_limit) noexcept {
  const bool inlined = t.strategy == transfer_strategy::push && length <= inline_limit;
  return t.reach.zero_copy && !inlined && place.segment->core_descriptor();
}

// Asked first, as it is cheap: rail_scheduler::shares_out.
bool may_be_shared_out(const transfer& t, std::size_t from) noexcept {
  return t.length >= from || t.connection->session.is_away;
}

}  // namespace

data_mover::data_mover(core::inner_domain& core, const endpoint_settings& config,
                       parts collaborators)
    : core_(core),
      config_(config),
      parts_(collaborators),
      shared_out_from_(collaborators.rails.threshold()),
      chunks_(core, config.staging_chunk, staging_pool::buffers_per_slab,
              staging_pool::limit_for(config.staging_depth)) {}

// The next piece, or what it waits for.
[[gnu::always_inline]] inline data_mover::issue_result data_mover::issue_next(transfer& t) {
  if (!core_.reads_safely() && immediate_copies::leaves_reading_to_core(t)) [[unlikely]] {
    if (t.moved.in_flight == 0 && !parts_.slots.grant_instead(t))
      parts_.completion.complete(t, FI_ENOMEM);
    return issue_result::waiting;
  }
  const auto place = t.memory.at(t.moved.issued);
  std::size_t limit = std::min(t.length - t.moved.issued, place.left());
  wire::segment target{};
  if (!t.slots.in_use) {
    target = t.remote_at(t.moved.issued);
    limit = std::min({limit, target.length, parts_.transport.limits().max_operation});
  }
  if (t.pull.via_copy_engine) {
    limit = std::min(limit, parts_.planner.params_of(t).chunk);
    return issue_by_engine(t, place, limit);
  }
  const bool shared_out = may_be_shared_out(t, shared_out_from_) && parts_.rails.shares_out(t);
  if (shared_out) [[unlikely]]
    limit = std::min(limit, parts_.rails.chunk());
  const bool staged =
      t.slots.in_use || (!place.segment->is_host() &&
                         !core_takes(t, place, limit, parts_.transport.limits().max_inlined));
  const rail_keys::way by{t.moved.issued, staged, t.next_slot()};
  if (shared_out && !choose_rail(t, by, limit)) [[unlikely]]
    return no_rail_for(t, by);
  return staged ? issue_staged(t, limit) : issue_direct(t, place, target, limit);
}

// Hands out as much as there is room for.
void data_mover::progress(transfer& t) {
  // Slots are filled, and buffers drained, as the peer's messages say.
  if (t.strategy != transfer_strategy::pull && t.strategy != transfer_strategy::push) return;
  if (t.pull.cooperative && parts_.cooperative.copy(t)) return;
  const auto id = t.id;
  while (t.moved.issued < t.length && !t.ending.begun && t.outcome.status == 0) {
    const issue_result did = issue_next(t);
    if (did == issue_result::issued) {
      // A chunk that needed no device and could not leave has ended the transfer.
      if (parts_.table.find(id) != &t) return;
      base::probes::transfer_issue(id, t.moved.issued, t.length);
      continue;
    }
    // Something in flight will come back here; without that, try again later.
    if (did != issue_result::waiting && t.moved.in_flight == 0) {
      t.moved.starved = did == issue_result::no_chunk;
      parts_.table.stall(t);
    }
    if (config_.rma_order && parts_.table.find(id) == &t) note_remainder(t);
    return;
  }
  // The reads need not wait for the ends of the writes before them.
  if (t.reach.at_other_nics && t.moved.issued == t.length && !t.ending.begun) [[unlikely]]
    (void)parts_.fences.begin(t);
  if (config_.rma_order) note_remainder(t);
}

// Nothing may overtake it (connection::is_open), so that the core sees operations in their order.
void data_mover::note_remainder(transfer& t) noexcept {
  const bool rest = !t.slots.in_use && t.strategy != transfer_strategy::recv_staged &&
                    t.moved.issued < t.length && !t.ending.begun;
  if (rest == t.rma.partially_issued || !t.connection) return;
  t.rma.partially_issued = rest;
  rest ? ++t.connection->rma_order.pending : --t.connection->rma_order.pending;
}

inline void data_mover::count_piece(transfer& t, const local_memory::place& place, bool local,
                                    std::size_t length) {
  ++(local ? parts_.paths.cma_ops : parts_.paths.direct_ops);
  (local ? parts_.paths.cma_bytes : parts_.paths.direct_bytes) += length;
  if (t.pull.via_nic) {
    ++parts_.paths.dmabuf_ipc_ops;
    parts_.paths.dmabuf_ipc_bytes += length;
  }
  if (place.segment->is_host()) return;
  ++parts_.paths.zero_copy_ops;
  parts_.paths.zero_copy_bytes += length;
  if (place.segment->owner) place.segment->owner->counted().zero_copy_bytes.add(length);
  if (t.strategy == transfer_strategy::pull) t.flush.nic_wrote = true;
}

// Where the connection will never take it, and no other rail is there, it is staged or fails.
data_mover::issue_result data_mover::no_rail_for(transfer& t, const rail_keys::way& by) {
  const auto [ours, peers] = parts_.keys.refused(t, by);
  if ((!ours && !peers) || t.connection->at_core.rails->any_up()) return issue_result::no_room;
  if (!peers && !by.by_chunk && t.memory.on_device() && std::exchange(t.reach.zero_copy, false))
    return issue_next(t);
  parts_.completion.complete(t, FI_EIO);
  return issue_result::waiting;
}

// The rail whose turn it is.
std::optional<std::size_t> data_mover::choose_rail(transfer& t, const rail_keys::way& by,
                                                   std::size_t length) {
  return parts_.rails.choose(*t.connection, length, t.length - t.moved.issued,
                             parts_.keys.usable(t, by));
}

int data_mover::post_on_rail(transfer& t, posted_op& w, rma_request& operation,
                             std::size_t offset) {
  connection& c = *t.connection;
  const bool by_chunk = w.what == posted_op::kind::chunk;
  const wire::segment* const slot = t.slots.in_use ? &operation.remote : nullptr;
  const auto place = choose_rail(t, {offset, by_chunk, slot}, operation.length);
  if (!place) return -FI_EAGAIN;
  rail& on = c.at_core.rails->rails[*place];
  if (!parts_.keys.adapt(t, w, *place, operation)) return -FI_EAGAIN;
  if (const int ret = on.nic ? 0 : give_descriptor(t, w, operation)) return ret;
  int ret = *place == 0 ? parts_.transport.post(c, w, operation)
                        : parts_.transport.post(c, on, w, operation);
  if (ret == 0) {
    parts_.rails.posted(c, w, *place, operation.length);
    if (!operation.read && !slot) parts_.fences.wrote(t, *place);
  } else if (ret != -FI_EAGAIN && *place != 0) {
    parts_.rails.fail(c, on);
    ret = -FI_EAGAIN;
  }
  return ret;
}

// Chunks are registered for good.
inline int data_mover::give_descriptor(const transfer& t, posted_op& w, rma_request& operation) {
  if (operation.descriptor || !core_.needs_local_mr()) return 0;
  auto& piece = static_cast<rma_op&>(w);
  const int ret = register_piece(t, piece, operation.bytes);
  operation.descriptor = piece.local.descriptor();
  return ret;
}

int data_mover::register_piece(const transfer& t, rma_op& piece, void* bytes) {
  if (piece.local && !piece.local_at) return 0;
  const std::uint64_t access = t.strategy == transfer_strategy::pull ? FI_READ : FI_WRITE;
  auto mr = core_.register_memory(bytes, piece.length, access);
  if (mr) piece.local = std::move(*mr);
  piece.local_at = nullptr;
  return mr.code();
}

// `target`: where the peer's bytes begin.
inline int data_mover::post_to_core(transfer& t, posted_op& w, void* bytes, std::size_t length,
                                    void* descriptor, std::size_t offset,
                                    const wire::segment& target) {
  const bool reads = t.strategy == transfer_strategy::pull;
  rma_request operation{.read = reads,
                        .flags = FI_COMPLETION | (t.rma.delivery ? FI_DELIVERY_COMPLETE : 0),
                        .bytes = bytes,
                        .descriptor = descriptor,
                        .length = length,
                        .remote = target};
  int ret = 0;
  if (may_be_shared_out(t, shared_out_from_) && parts_.rails.shares_out(t)) [[unlikely]] {
    ret = post_on_rail(t, w, operation, offset);
  } else {
    ret = give_descriptor(t, w, operation);
    if (ret == 0) ret = parts_.transport.post(*t.connection, w, operation);
  }
  if (ret == -FI_EAGAIN) return ret;
  t.reach.via_core = true;
  return ret;
}

data_mover::issue_result data_mover::issue_direct(transfer& t, const local_memory::place& place,
                                                  const wire::segment& target, std::size_t limit) {
  const bool may_be_local = t.pull.via_nic || t.connection->shm;
  const bool local = may_be_local && !t.pull.via_nic &&
                     immediate_copies::reaches(t, place.address(), target.address);
  if (local || t.pull.via_nic) {
    // Each is copied at once: no more of them than is good for those who wait.
    if (t.moved.in_flight != 0) return issue_result::waiting;
    limit = std::min(limit, local_copy_limit);
  }
  rma_op* piece = parts_.table.pieces().create(t, t.moved.issued, limit);
  if (!piece) return issue_result::no_room;
  void* descriptor = place.segment->core_descriptor();
  auto* bytes = reinterpret_cast<std::byte*>(place.address());
  int ret = 0;
  if (!descriptor && t.pull.via_nic && core_.needs_local_mr()) {
    ret = register_piece(t, *piece, bytes);
    descriptor = piece->local.descriptor();
  }
  if (ret == 0)
    ret = may_be_local ? post_rma(t, *piece, bytes, limit, descriptor, t.moved.issued, 0)
                       : post_to_core(t, *piece, bytes, limit, descriptor, t.moved.issued, target);
  if (ret) {
    parts_.table.pieces().destroy(piece);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    parts_.completion.complete(t, -ret);
    return issue_result::waiting;
  }
  ++t.moved.in_flight;
  t.moved.issued += limit;
  count_piece(t, place, local, limit);
  return issue_result::issued;
}

buffer* data_mover::acquire_chunk(const connection& c) noexcept {
  return chunks_.acquire(c.remote->chunks, parts_.connections.count());
}

// One that was in use comes back. Where none is, there was no memory for the first.
data_mover::issue_result data_mover::no_chunk_for(transfer& t) {
  if (chunks_.in_use() != 0) return issue_result::no_chunk;
  parts_.completion.complete(t, FI_ENOMEM);
  return issue_result::waiting;
}

// A chunk stands for the copy, with none of the bytes.
data_mover::issue_result data_mover::issue_by_engine(transfer& t, const local_memory::place& place,
                                                     std::size_t length) {
  if (t.moved.in_flight >= parts_.planner.params_of(t).depth) return issue_result::waiting;
  buffer* const b = acquire_chunk(*t.connection);
  if (!b) return no_chunk_for(t);
  b->owner = &t;
  b->length = length;
  b->copies = 0;
  b->failed = 0;
  const copy::copy_part part{place.address(), t.remote_at(t.moved.issued).address, length};
  const int ret = parts_.copies.start_within(*place.segment->owner, *b, part);
  if (ret) {
    release_staging(*b);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    parts_.completion.complete(t, -ret);
    return issue_result::waiting;
  }
  ++t.moved.in_flight;
  t.moved.issued += length;
  ++parts_.paths.engine_ops;
  parts_.paths.engine_bytes += length;
  return issue_result::issued;
}

data_mover::issue_result data_mover::issue_staged(transfer& t, std::size_t limit) {
  if (t.moved.in_flight >= parts_.planner.params_of(t).depth) return issue_result::waiting;
  if (t.slots.in_use && t.slots.free.empty()) return issue_result::waiting;
  buffer* b = t.slots.are_shared
                  ? t.connection->local.slots_out->take(t.remote[t.slots.free.back()].address)
                  : acquire_chunk(*t.connection);
  if (!b) return t.slots.are_shared ? issue_result::no_room : no_chunk_for(t);
  b->owner = &t;
  b->offset = t.moved.issued;
  b->length = std::min(limit, t.pipeline.chunk);
  b->copies = 0;
  b->failed = 0;
  if (t.slots.in_use) {
    b->slot = t.slots.free.back();
    b->length = std::min<std::size_t>(b->length, t.remote[b->slot].length);
  }
  int ret;
  if (t.strategy == transfer_strategy::push) {
    ret =
        parts_.copies.start(*b, 0, t.memory, b->offset, b->length, copy::direction::device_to_host);
  } else {
    ret = post_rma(t, *b, b->bytes, b->length, b->descriptor(), b->offset, 0);
  }
  if (ret) {
    release_staging(*b);
    if (ret == -FI_EAGAIN) return issue_result::no_room;
    parts_.completion.complete(t, -ret);
    return issue_result::waiting;
  }
  if (t.slots.in_use) t.slots.free.pop_back();
  ++t.moved.in_flight;
  t.moved.issued += b->length;
  ++parts_.paths.staged_ops;
  parts_.paths.staged_bytes += b->length;
  if (t.slots.are_shared) ++parts_.paths.shm_ops;
  // Without a device segment in it there was nothing to wait for.
  if (t.strategy == transfer_strategy::push && b->copies == 0) copied(*b);
  return issue_result::issued;
}

int data_mover::post_rma(transfer& t, posted_op& w, void* bytes, std::size_t length,
                         void* descriptor, std::size_t offset, std::uint32_t slot) {
  const wire::segment target = t.slots.in_use ? t.remote[slot] : t.remote_at(offset);
  if (t.pull.via_nic) return parts_.immediate.read_by_nic(t, w, bytes, descriptor, length, target);
  if (t.connection->shm &&
      immediate_copies::reaches(t, reinterpret_cast<std::uint64_t>(bytes), target.address))
    return parts_.immediate.copy_by_cma(t, w, bytes, length, target.address);
  return post_to_core(t, w, bytes, length, descriptor, offset, target);
}

void data_mover::retry_stalled() {
  stalled_list& stalled = parts_.table.stalled();
  if (chunks_.is_worth_another_try()) tried_in_vain_ = 0;
  chunks_.forget_returns();
  std::vector<buffer*> buffers;
  buffers.swap(write_backlog_);
  for (buffer* b : buffers)
    parts_.connections.on_behalf_of(b->owner->connection, [&] { chunk_loaded(*b->owner, *b, 0); });
  // Most wait for the same: where several in a row found none of it, the rest has its turn later.
  constexpr unsigned max_in_vain = 16;
  unsigned in_vain = 0;
  for (std::size_t left = stalled.size(); left > 0 && in_vain < max_in_vain; --left) {
    if (stalled.empty()) return;
    transfer& t = stalled.front();
    stalled.pop_front();
    const std::size_t others = stalled.size();
    parts_.connections.on_behalf_of(t.connection, [&] { progress(t); });
    in_vain = stalled.size() > others ? in_vain + 1 : 0;
    tried_in_vain_ = in_vain == 0 ? 0 : tried_in_vain_ + 1;
  }
}

bool data_mover::waits_unnoticed() const noexcept {
  const stalled_list& stalled = parts_.table.stalled();
  return std::any_of(
             write_backlog_.begin(), write_backlog_.end(),
             [](const buffer* b) { return b->owner->connection->at_core.posted.empty(); }) ||
         std::any_of(stalled.begin(), stalled.end(),
                     [this](const transfer& t) { return must_retry(t); });
}

bool data_mover::must_retry(const transfer& t) const noexcept {
  if (t.moved.starved)
    return chunks_.is_worth_another_try() || tried_in_vain_ < parts_.table.stalled().size();
  // The engine may be full of what others have it do.
  const bool by_core =
      t.strategy == transfer_strategy::pull ? !t.pull.via_copy_engine : !t.memory.on_device();
  return !by_core || !t.connection || t.connection->at_core.posted.empty();
}

void data_mover::await_helpers() {
  const auto tell = config_.clock.now() + std::chrono::seconds(1);
  bool told = false;
  while (!parts_.table.stalled().empty()) {
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

}  // namespace gaudi::proto
