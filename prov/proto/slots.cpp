// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Staging slots of ours, which sources fill and our devices empty: which transfer is given them.
// The oldest that wants some comes first. One that needs a slot no more does not keep it until its
// own end: the next one's data is on its way by then.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// As its source calls it.
wire::segment name_of(const transfer& t, const buffer& slot) {
  const std::size_t length = t.granted.slot_length();
  if (slot.shared) return {slot.shared->number_of(slot), 0, length};
  return {reinterpret_cast<std::uint64_t>(slot.bytes), slot.key(), length};
}

}  // namespace

void endpoint::grant_slots(transfer& t) {
  shared_slots* const shared = t.connection->slots_to_us();
  t.strategy = transfer_strategy::recv_staged;
  t.shared = shared != nullptr;
  const std::size_t chunk = pipeline_params_of(t).chunk;
  t.granted.begin(t.length, shared ? std::min(chunk, shared->slot_size()) : chunk);
  grant_queue_.push_back(&t);
  hand_out_slots(shared);
  // With none in use none will come back either.
  if (!shared && slots_->in_use() == 0) complete(t, FI_ENOMEM);
}

void endpoint::hand_out_slots(const shared_slots* of) {
  // What is not left for one peer may be for another, which has fewer.
  for (std::size_t i = 0; i < grant_queue_.size();) {
    transfer& t = *grant_queue_[i];
    if (t.connection->slots_to_us() == of && grant_more(t)) {
      grant_queue_.erase(grant_queue_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// Whether it has all that it wants.
bool endpoint::grant_more(transfer& t) {
  const std::size_t most = std::min(pipeline_params_of(t).depth, wire::max_slots);
  const auto wants = [&] {
    return !t.ending && t.granted.wants_another() && t.granted.held() < most &&
           t.granted.numbers() < wire::max_slots;
  };
  wire::cts_fields g{};
  while (wants()) {
    buffer* const slot = t.shared
                             ? t.connection->slots_to_us()->acquire()
                             : slots_->acquire(t.connection->remote->slots, connections_->count());
    if (!slot) break;
    slot->owner = &t;
    slot->copies = 0;
    g.segments[g.segment_count++] = name_of(t, *slot);
    t.granted.give(*slot);
  }
  if (g.segment_count != 0) send_cts(*t.connection, t, g, t.shared ? wire::shared : 0);
  return !wants();
}

void endpoint::fill_from_slot(transfer& t, buffer& slot, const wire::chunk_fields& chunk) {
  if (slot.copies != 0) return malformed(*t.connection, "chunk (slot in use)");
  slot.slot = chunk.slot;
  slot.offset = chunk.offset;
  slot.length = chunk.length;
  slot.failed = 0;
  ++t.in_flight;
  const int ret =
      copies_.start(slot, 0, t.memory, chunk.offset, chunk.length, copy::direction::host_to_device);
  if (ret || slot.copies == 0) slot_emptied(t, slot, -ret);
}

void endpoint::slot_emptied(transfer& t, buffer& slot, int error) {
  const std::size_t length = slot.length;
  // Those of a transfer that has failed are kept until its source knows.
  if (!error && !t.ending) reuse_slot(t, slot);
  piece_finished(t, length, error);
}

void endpoint::reuse_slot(transfer& t, buffer& slot) {
  if (!t.granted.wants_another()) {
    const shared_slots* const of = slot.shared;
    t.granted.take_back(slot.slot);
    release_staging(slot);
    return hand_out_slots(of);
  }
  t.granted.export_again();
  wire::chunk_fields fields{};
  fields.operation = t.peer_operation;
  fields.slot = slot.slot;
  send_control(*t.connection, wire::kind::slot_credit, 0, fields, sizeof fields);
}

void endpoint::take_slots_back(transfer& t) {
  if (t.granted.held() == 0) return;
  const shared_slots* of = nullptr;
  for (buffer* const slot : t.granted.take_all()) {
    of = slot->shared;
    release_staging(*slot);
  }
  hand_out_slots(of);
}

}  // namespace gaudi::proto
