// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/slot_granter.hpp"

#include <rdma/fi_domain.h>

#include <algorithm>
#include <utility>

namespace gaudi::proto {
namespace {

// As its source calls it.
wire::segment name_of(const transfer& t, const buffer& slot) {
  const std::size_t length = t.slots.granted.slot_length();
  if (slot.home.slots) return {slot.home.slots->number_of(slot), 0, length};
  return {reinterpret_cast<std::uint64_t>(slot.bytes), slot.key(), length};
}

}  // namespace

slot_granter::slot_granter(core::inner_domain& core, const endpoint_settings& config,
                           connection_manager& connections, packet_channel& channel,
                           const pipeline_planner& planner)
    : connections_(connections),
      channel_(channel),
      planner_(planner),
      slots_(core, config.staging_chunk, staging_pool::buffers_per_slab,
             staging_pool::limit_for(config.staging_depth), FI_REMOTE_WRITE) {}

bool slot_granter::grant(transfer& t) {
  shared_slots* const shared = t.connection->slots_to_us();
  t.strategy = transfer_strategy::recv_staged;
  t.slots.are_shared = shared != nullptr;
  const std::size_t chunk = planner_.params_of(t).chunk;
  t.slots.granted.begin(t.length, shared ? std::min(chunk, shared->slot_size()) : chunk);
  grant_queue_.add(t, *t.connection, shared);
  t.slots.are_wanted = true;
  hand_out(shared);
  // With none in use none will come back either.
  return shared || slots_.in_use() != 0;
}

bool slot_granter::grant_instead(transfer& t) {
  t.moved = {};
  t.pipeline = {};
  t.remote.clear();
  t.reach.why = base::path_reason::source_is_kept;
  return grant(t);
}

void slot_granter::hand_out(const shared_slots* of) {
  grant_queue_.serve(of, [this](transfer& t) {
    const bool has_all = grant_more(t);
    t.slots.are_wanted = !has_all;
    return has_all;
  });
}

// Whether it has all that it wants.
bool slot_granter::grant_more(transfer& t) {
  const std::size_t most = std::min(planner_.params_of(t).depth, wire::max_slots);
  const auto wants = [&] {
    return !t.ending.begun && t.slots.granted.wants_another() && t.slots.granted.held() < most &&
           t.slots.granted.numbers() < wire::max_slots;
  };
  wire::cts_fields g{};
  while (wants()) {
    buffer* const slot = t.slots.are_shared
                             ? t.connection->slots_to_us()->acquire()
                             : slots_.acquire(t.connection->remote->slots, connections_.count());
    if (!slot) break;
    slot->owner = &t;
    slot->copies = 0;
    g.segments[g.segment_count++] = name_of(t, *slot);
    t.slots.granted.give(*slot);
  }
  if (g.segment_count != 0) send_cts(channel_, t, g, t.slots.are_shared ? wire::shared : 0);
  return !wants();
}

void slot_granter::reuse(transfer& t, buffer& slot) {
  if (!t.slots.granted.wants_another()) {
    const shared_slots* const of = slot.home.slots;
    t.slots.granted.take_back(slot.slot);
    release_staging(slot);
    return hand_out(of);
  }
  t.slots.granted.export_again();
  wire::chunk_fields fields{};
  fields.operation = t.peer_operation;
  fields.slot = slot.slot;
  channel_.send_control(*t.connection, wire::kind::slot_credit, 0, fields, sizeof fields);
}

void slot_granter::take_back_all(transfer& t) {
  if (std::exchange(t.slots.are_wanted, false)) grant_queue_.remove(t);
  if (t.slots.granted.held() == 0) return;
  const shared_slots* of = nullptr;
  for (buffer* const slot : t.slots.granted.take_all()) {
    of = slot->home.slots;
    release_staging(*slot);
  }
  hand_out(of);
}

}  // namespace gaudi::proto
