// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/transfer_packets.hpp"

#include <algorithm>
#include <cstring>

#include "proto/channel/parse.hpp"
#include "proto/operation/rts.hpp"

namespace gaudi::proto {
namespace {

// Whether a grant gives more slots to a transfer that has some.
bool adds_to(const transfer& t, const wire::cts_fields& g) noexcept {
  const bool shared = g.head.flags & wire::shared;
  return t.slots.in_use && !(g.head.flags & wire::direct) && shared == t.slots.are_shared &&
         g.length == t.length && g.target_operation == t.peer_operation;
}

// Where to write to. False: it has no room.
bool take_places(transfer& t, const wire::cts_fields& g) {
  std::size_t room = 0;
  for (std::uint32_t i = 0; i < g.segment_count; ++i) {
    if (t.slots.in_use && g.segments[i].length == 0) return false;
    room += g.segments[i].length;
    if (t.slots.in_use) t.slots.free.push_back(static_cast<std::uint32_t>(t.remote.size()));
    t.remote.push_back(g.segments[i]);
  }
  return t.slots.in_use || room >= g.length;
}

}  // namespace

bool transfer_packets::handle_read_reply(connection& c, buffer& b, std::size_t length,
                                         bool rendezvous) {
  wire::fin_fields fields;
  if (!parse(b, length, fields)) {
    parts_.connections.malformed(c, "RMA read reply");
    return true;
  }
  transfer* t = parts_.table.find_active(c, fields.operation);
  if (!t || t->role != transfer_role::reader) return true;
  t->role = transfer_role::sink;
  const std::byte* payload = b.bytes + sizeof fields;
  const std::size_t left = length - sizeof fields;
  if (!rendezvous) return take_reply(c, b, payload, left, *t);
  wire::rts_fields rts;
  if (!parse_rts(payload, left, rts, fields.head.flags) || rts.length != t->length) {
    parts_.connections.malformed(c, "RMA read reply");
    return true;
  }
  parts_.sink.start(c, rts, fields.head.flags, *t);
  return true;
}

bool transfer_packets::take_reply(connection& c, buffer& b, const std::byte* payload,
                                  std::size_t length, transfer& t) {
  if (length != t.length) {
    parts_.connections.malformed(c, "RMA read reply");
    return true;
  }
  if (t.outcome.status != 0) {
    parts_.completion.complete(t, t.outcome.status);
    return true;
  }
  parts_.channel.count_eager(c, length);
  return parts_.mover.copy_out(t, &b, payload);
}

void transfer_packets::handle_cts(connection& c, buffer& b, std::size_t length) {
  constexpr std::size_t fixed = offsetof(wire::cts_fields, segments);
  wire::cts_fields cts{};
  if (length < fixed) return parts_.connections.malformed(c, "grant");
  std::memcpy(&cts, b.bytes, std::min(length, sizeof cts));
  transfer* t = parts_.table.find_active(c, cts.source_operation);
  if (!t || t->role != transfer_role::source) return;
  const bool has_some = t->strategy == transfer_strategy::push;
  if (t->strategy != transfer_strategy::none && !has_some) return;
  if (cts.segment_count == 0 || cts.segment_count > wire::max_slots - t->remote.size() ||
      length < fixed + cts.segment_count * sizeof(wire::segment) ||
      cts.length > t->memory.length() || (has_some && !adds_to(*t, cts)))
    return parts_.connections.malformed(c, "grant");
  take_cts(c, cts, *t);
}

void transfer_packets::take_cts(connection& c, const wire::cts_fields& cts, transfer& t) {
  t.peer_operation = cts.target_operation;
  // Its device may have been lost while the grant was on its way.
  if (t.outcome.status != 0) return parts_.completion.complete(t, t.outcome.status);
  t.slots.in_use = !(cts.head.flags & wire::direct);
  t.slots.are_shared = cts.head.flags & wire::shared;
  if (t.slots.are_shared && (!t.slots.in_use || !c.are_slots_of_peer(cts)))
    return parts_.connections.malformed(c, "grant");
  if (!take_places(t, cts)) return parts_.connections.malformed(c, "grant");
  t.length = cts.length;
  t.strategy = transfer_strategy::push;
  parts_.mover.progress(t);
}

void transfer_packets::handle_chunk(connection& c, buffer& b, std::size_t length) {
  wire::chunk_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "chunk");
  transfer* t = parts_.table.find_active(c, fields.operation);
  if (!t || t->strategy != transfer_strategy::recv_staged) return;
  if (fields.length > t->slots.granted.slot_length() || fields.offset > t->length ||
      fields.length > t->length - fields.offset)
    return parts_.connections.malformed(c, "chunk");
  buffer* const slot = t->slots.granted.filled(fields.slot, fields.length);
  slot ? parts_.mover.fill_from_slot(*t, *slot, fields) : parts_.connections.malformed(c, "chunk");
}

void transfer_packets::handle_slot_credit(connection& c, buffer& b, std::size_t length) {
  wire::chunk_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "credit for a slot");
  transfer* t = parts_.table.find_active(c, fields.operation);
  if (!t || !t->slots.in_use) return;
  if (fields.slot >= t->remote.size() ||
      std::count(t->slots.free.begin(), t->slots.free.end(), fields.slot))
    return parts_.connections.malformed(c, "credit for a slot");
  t->slots.free.push_back(fields.slot);
  parts_.mover.progress(*t);
}

void transfer_packets::handle_fin(connection& c, buffer& b, std::size_t length) {
  wire::fin_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "end of an operation");
  transfer* t = parts_.table.find(fields.operation);
  if (!t || t->connection != &c || fields.status < 0) return;
  t->ending.peer_ended = true;
  parts_.completion.complete(*t, fields.status);
}

void transfer_packets::handle_copy_assist(connection& c, buffer& b, std::size_t length) {
  wire::copy_assist_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "request for help");
  parts_.cooperative.start_assist(c, fields);
}

void transfer_packets::handle_dmabuf_request(connection& c, buffer& b, std::size_t length) {
  wire::dmabuf_ask_fields request;
  if (!parse(b, length, request)) return parts_.connections.malformed(c, "request for a dma-buf");
  parts_.exporter.export_to_peer(c, request);
}

void transfer_packets::handle_dmabuf(connection& c, buffer& b, std::size_t length) {
  wire::dmabuf_fields sent;
  if (!parse(b, length, sent) || sent.status < 0) return parts_.connections.malformed(c, "dma-buf");
  if (transfer* const t = parts_.importer.handle_dmabuf(c, sent)) parts_.sink.ask_to_write(c, *t);
}

void transfer_packets::handle_dmabuf_revoke(connection& c, buffer& b, std::size_t length) {
  wire::allocation_fields freed;
  if (!parse(b, length, freed)) return parts_.connections.malformed(c, "end of a dma-buf");
  parts_.importer.forget_freed(c, freed);
}

void transfer_packets::handle_rail_question(connection& c, buffer& b, std::size_t length) {
  parts_.rails.asked(c, b, length);
}

void transfer_packets::handle_rail_keys(connection& c, buffer& b, std::size_t length) {
  if (transfer* const t = parts_.rails.answered(c, b, length)) parts_.mover.progress(*t);
}

}  // namespace gaudi::proto
