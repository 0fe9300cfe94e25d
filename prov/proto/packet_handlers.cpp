// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What arrives: every length and name in a packet is the peer's word and is checked before it is
// used.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "proto/endpoint.hpp"
#include "proto/rts.hpp"

namespace gaudi::proto {
namespace {

// The fixed part of a packet, or nothing if the packet is too short for it.
template <class Fields>
bool parse(const buffer& b, std::size_t length, Fields& out) noexcept {
  if (length < sizeof(Fields)) return false;
  std::memcpy(&out, b.bytes, sizeof(Fields));
  return true;
}

// Whether a grant gives more slots to a transfer that has some.
bool adds_to(const transfer& t, const wire::cts_fields& g) noexcept {
  const bool shared = g.head.flags & wire::shared;
  return t.slots && !(g.head.flags & wire::direct) && shared == t.shared && g.length == t.length &&
         g.target_operation == t.peer_operation;
}

// Where to write to. False: it has no room.
bool take_places(transfer& t, const wire::cts_fields& g) {
  std::size_t room = 0;
  for (std::uint32_t i = 0; i < g.segment_count; ++i) {
    if (t.slots && g.segments[i].length == 0) return false;
    room += g.segments[i].length;
    if (t.slots) t.free_slots.push_back(static_cast<std::uint32_t>(t.remote.size()));
    t.remote.push_back(g.segments[i]);
  }
  return t.slots || room >= g.length;
}

}  // namespace

void endpoint::malformed(connection& c, const char* what) {
  GAUDI_WARN(EP_DATA, "%s sent a malformed %s: the connection is closed\n",
             c.remote->name.to_string().c_str(), what);
  connections_->fail(c, FI_ECONNABORTED);
}

// What it may have here without an answer is what it was promised room for.
void endpoint::overrun(connection& c) {
  GAUDI_WARN(EP_DATA, "%s sent more messages than it had credits for: the connection is closed\n",
             c.remote->name.to_string().c_str());
  connections_->fail(c, FI_ECONNABORTED);
}

// A buffer of a stream was posted for one connection, and the number in the packet has to agree.
// Over RDMA the number alone tells the connection; nobody but its peer knows it.
void endpoint::receive_completed(buffer& b, std::size_t length, int error) {
  const auto& head = *reinterpret_cast<const wire::header*>(b.bytes);
  const bool is_whole = error == 0 && length >= sizeof head;
  const bool by_stream = b.connection_id != 0;
  connection* const c = connections_->find(by_stream  ? b.connection_id
                                           : is_whole ? head.connection
                                                      : 0);
  receive_buffers_->completed(c);
  // Packets of a connection that failed meanwhile may still be on their way up.
  if (c && error == FI_ETRUNC) malformed(*c, "packet (length)");
  if (!c || error) return receive_buffers_->give_back(b);
  if (!is_whole || head.connection != c->id) [[unlikely]] {
    malformed(*c, "packet (of another connection)");
    return receive_buffers_->give_back(b);
  }
  if (c->usable() || connections_->confirm_connected(*c)) return packet_arrived(*c, b, length);
  if (!receive_buffers_->give_back(b, *c)) post_receives(*c);
}

// The packet has a whole header.
void endpoint::packet_arrived(connection& c, buffer& b, std::size_t length) {
  if (!c.postponed.empty()) [[unlikely]]
    return postpone(c, b, length);
  const auto head = *reinterpret_cast<const wire::header*>(b.bytes);
  c.data.returned(head.data_credits);
  c.control.returned(head.control_credits);
  const bool control = wire::is_control(head.what);
  const bool counted = wire::takes_credit(head.what);
  if (counted && !(control ? c.control : c.data).arrived()) [[unlikely]] {
    overrun(c);
    return done_with(c, b, true);
  }
  done_with(c, b, dispatch_or_end(c, b, length));
  if (c.state == connection_state::failed) return;
  if (control && counted && head.what != wire::kind::event)
    c.control.consumed(wire::control_window);
  if (c.returns_due()) return_credits(c);
}

// `free`: nothing keeps the buffer.
void endpoint::done_with(connection& c, buffer& b, bool free) {
  if (!free || !receive_buffers_->give_back(b, c)) post_receives(c);
}

// Without memory for what the packet asks for, the peer cannot be served: it is told by the end of
// the connection, and so are the operations with it. What keeps the buffer does so last of all. But
// a message of which nothing was done yet waits in its buffer: its sender has been told that it is
// sent.
bool endpoint::dispatch_or_end(connection& c, buffer& b, std::size_t length) {
  try {
    return dispatch(c, b, length);
  } catch (const untouched&) {
    c.postponed_is_counted = true;
    postpone(c, b, length);
    return false;
  } catch (const std::bad_alloc&) {
    connections_->fail_soon(c, FI_ENOMEM);
    return true;
  }
}

// The packet waits for memory, and all that come behind it wait with it. The buffer is not posted
// again, so that the peer comes to a halt.
void endpoint::postpone(connection& c, buffer& b, std::size_t length) noexcept {
  b.length = length;
  c.postponed.push_back(b);
  any_postponed_ = any_waiting_ = true;
}

void endpoint::retry_postponed() {
  any_postponed_ = false;
  connections_->for_each([this](connection& c) {
    posted_op_list waited;
    waited.swap(c.postponed);
    bool counted = std::exchange(c.postponed_is_counted, false);
    while (!waited.empty()) {
      auto& b = static_cast<buffer&>(waited.front());
      waited.pop_front();
      const bool is_counted = std::exchange(counted, false);
      if (c.state == connection_state::failed) {
        receive_buffers_->give_back(b);
      } else if (!is_counted) {
        packet_arrived(c, b, b.length);
      } else {
        done_with(c, b, dispatch_or_end(c, b, b.length));
      }
    }
  });
}

void endpoint::drop_postponed(connection& c) {
  while (!c.postponed.empty()) {
    auto& b = static_cast<buffer&>(c.postponed.front());
    c.postponed.pop_front();
    receive_buffers_->give_back(b);
  }
}

// Whether the buffer is free again.
bool endpoint::dispatch(connection& c, buffer& b, std::size_t length) {
  using wire::kind;
  switch (reinterpret_cast<const wire::header*>(b.bytes)->what) {
    case kind::eager:
      return handle_message(c, b, length, false);
    case kind::rts:
      return handle_message(c, b, length, true);
    case kind::write:
      return handle_write(c, b, length, false);
    case kind::write_rts:
      return handle_write(c, b, length, true);
    case kind::read:
      handle_read(c, b, length);
      return true;
    case kind::atomic:
      handle_atomic(c, b, length);
      return true;
    case kind::read_reply:
      return handle_read_reply(c, b, length, false);
    case kind::read_rts:
      return handle_read_reply(c, b, length, true);
    case kind::cts:
      handle_cts(c, b, length);
      return true;
    case kind::chunk:
      handle_chunk(c, b, length);
      return true;
    case kind::slot_credit:
      handle_slot_credit(c, b, length);
      return true;
    case kind::fin:
      handle_fin(c, b, length);
      return true;
    case kind::event:
      handle_event(c, b, length);
      return true;
    case kind::flush:
      handle_flush(c, b, length);
      return true;
    case kind::ask_dmabuf:
    case kind::dmabuf:
    case kind::dmabuf_revoke:
      handle_dmabuf_packet(c, b, length);
      return true;
    case kind::copy_assist:
      handle_copy_assist(c, b, length);
      return true;
    case kind::credit:
      return true;
    case kind::credit_recall:
      release_credits(c);
      return true;
    case kind::credit_release:
      handle_credit_release(c, b, length);
      return true;
    case kind::close_request:
    case kind::close_accept:
    case kind::close_refuse:
      handle_closing(c, b);
      return true;
  }
  malformed(c, "packet (unknown kind)");
  return true;
}

// Of a message that is arriving: packet_arrived looks at the end of it whether credits are due.
void endpoint::consume(connection& c) noexcept {
  if (c.state == connection_state::failed) return;
  connections_->credits().consumed(c);
  if (connections_->credits().any_wanted()) [[unlikely]]
    recall_credits();
}

void endpoint::consumed_data(connection& c) {
  consume(c);
  if (c.returns_due()) return_credits(c);
}

bool endpoint::handle_message(connection& c, buffer& b, std::size_t length, bool rendezvous) {
  const auto flags = reinterpret_cast<const wire::header*>(b.bytes)->flags;
  const std::size_t start = rendezvous ? sizeof(wire::eager_fields) : wire::eager_size(flags);
  if (length < start) {
    malformed(c, "message");
    return true;
  }
  const auto& fields = *reinterpret_cast<const wire::eager_fields*>(b.bytes);
  message_info m;
  wire::rts_fields rts;
  m.from = c.remote;
  m.flags = flags;
  m.tag = (flags & wire::tagged) ? fields.tag : 0;
  m.data = (flags & wire::cq_data) && start > offsetof(wire::eager_fields, data) ? fields.data : 0;
  m.operation = start == sizeof fields ? fields.operation : 0;
  m.rendezvous = rendezvous;
  if (rendezvous) {
    if (!parse_rts(b.bytes + start, length - start, rts, flags)) {
      malformed(c, "rendezvous");
      return true;
    }
    m.length = rts.length;
    m.rts = &rts;
  } else {
    m.length = length - start;
  }

  match_queue& queue = receives_->queue_for(flags & wire::tagged);
  posted_hook* matched = queue.find_posted_for(c.remote->number, m.tag);
  if (!matched) return queue_unexpected(c, b, m, b.bytes + start);
  auto& receive = static_cast<posted_receive&>(*matched);
  bool free;
  if (receive.many) [[unlikely]] {
    free = deliver_into_many(c, m, b.bytes + start, b, receive);
  } else {
    queue.remove(receive);
    if (receive.completion.shared) [[unlikely]]
      receive.completion = reported_here(receive.completion);
    free = deliver(&c, m, b.bytes + start, &b, receive.completion, receive.memory);
    receives_->receive_pool_.destroy(&receive);
  }
  consume(c);
  return free;
}

bool endpoint::handle_write(connection& c, buffer& b, std::size_t length, bool rendezvous) {
  wire::rma_fields fields;
  wire::rts_fields rts{};
  const auto flags = reinterpret_cast<const wire::header*>(b.bytes)->flags;
  if (!parse(b, length, fields) ||
      (rendezvous ? !parse_rts(b.bytes + sizeof fields, length - sizeof fields, rts, flags) ||
                        rts.length != fields.length
                  : length - sizeof fields != fields.length)) {
    malformed(c, "RMA write");
    return true;
  }
  const auto target = keys_.find(fields.key, fields.address, fields.length, FI_REMOTE_WRITE);
  if (!target) {
    send_fin(c, fields.operation, FI_EACCES);
    consume(c);
    return true;
  }
  message_info m;
  m.from = c.remote;
  m.flags = flags | wire::want_fin;
  m.data = fields.data;
  m.operation = fields.operation;
  m.length = fields.length;
  m.rendezvous = rendezvous;
  m.rts = &rts;
  // Only remote CQ data tells the target's application of the write.
  completion_spec completion;
  completion.queue = receive_queue_;
  completion.counter = peers_wrote_;
  completion.mr_counter = (**target).peers_wrote;
  completion.flags = FI_RMA | FI_REMOTE_WRITE;
  completion.report = flags & wire::cq_data;
  completion.of_peer = true;
  const bool free = deliver(&c, m, b.bytes + sizeof fields, &b, completion,
                            local_memory::inside(**target, fields.address, fields.length));
  const bool must_wait = completion.report && reports_are_behind();
  must_wait ? withhold_credit(c, c.withheld) : consume(c);
  return free;
}

void endpoint::handle_read(connection& c, buffer& b, std::size_t length) {
  wire::rma_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "RMA read");
  const auto source = keys_.find(fields.key, fields.address, fields.length, FI_REMOTE_READ);
  if (source && serve_read(c, fields, **source)) return;
  if (!source) send_fin(c, fields.operation, FI_EACCES);
  consume(c);
}

bool endpoint::handle_read_reply(connection& c, buffer& b, std::size_t length, bool rendezvous) {
  wire::fin_fields fields;
  if (!parse(b, length, fields)) {
    malformed(c, "RMA read reply");
    return true;
  }
  transfer* t = transfers_.find(fields.operation);
  if (!t || t->connection != &c || t->ending || t->role != transfer_role::reader) return true;
  t->role = transfer_role::sink;
  const std::byte* payload = b.bytes + sizeof fields;
  const std::size_t left = length - sizeof fields;
  if (!rendezvous) {
    if (left != t->length) {
      malformed(c, "RMA read reply");
      return true;
    }
    if (t->status != 0) {
      complete(*t, t->status);
      return true;
    }
    count_eager(c, left);
    return copy_out(*t, &b, payload);
  }
  wire::rts_fields rts;
  if (!parse_rts(payload, left, rts, fields.head.flags) || rts.length != t->length) {
    malformed(c, "RMA read reply");
    return true;
  }
  start_sink(c, rts, fields.head.flags, *t);
  return true;
}

void endpoint::handle_cts(connection& c, buffer& b, std::size_t length) {
  constexpr std::size_t fixed = offsetof(wire::cts_fields, segments);
  wire::cts_fields g{};
  if (length < fixed) return malformed(c, "grant");
  std::memcpy(&g, b.bytes, std::min(length, sizeof g));
  transfer* t = transfers_.find(g.source_operation);
  if (!t || t->connection != &c || t->ending || t->role != transfer_role::source) return;
  const bool has_some = t->strategy == transfer_strategy::push;
  if (t->strategy != transfer_strategy::none && !has_some) return;
  if (g.segment_count == 0 || g.segment_count > wire::max_slots - t->remote.size() ||
      length < fixed + g.segment_count * sizeof(wire::segment) || g.length > t->memory.length() ||
      (has_some && !adds_to(*t, g)))
    return malformed(c, "grant");
  t->peer_operation = g.target_operation;
  // Its device may have been lost while the grant was on its way.
  if (t->status != 0) return complete(*t, t->status);
  t->slots = !(g.head.flags & wire::direct);
  t->shared = g.head.flags & wire::shared;
  if (t->shared && (!t->slots || !c.are_slots_of_peer(g))) return malformed(c, "grant");
  if (!take_places(*t, g)) return malformed(c, "grant");
  t->length = g.length;
  t->strategy = transfer_strategy::push;
  progress_transfer(*t);
}

void endpoint::handle_chunk(connection& c, buffer& b, std::size_t length) {
  wire::chunk_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "chunk");
  transfer* t = transfers_.find(fields.operation);
  if (!t || t->connection != &c || t->strategy != transfer_strategy::recv_staged || t->ending)
    return;
  if (fields.length > t->granted.slot_length() || fields.offset > t->length ||
      fields.length > t->length - fields.offset)
    return malformed(c, "chunk");
  buffer* const slot = t->granted.filled(fields.slot, fields.length);
  slot ? fill_from_slot(*t, *slot, fields) : malformed(c, "chunk");
}

void endpoint::handle_slot_credit(connection& c, buffer& b, std::size_t length) {
  wire::chunk_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "credit for a slot");
  transfer* t = transfers_.find(fields.operation);
  if (!t || t->connection != &c || !t->slots || t->ending) return;
  if (fields.slot >= t->remote.size() ||
      std::count(t->free_slots.begin(), t->free_slots.end(), fields.slot))
    return malformed(c, "credit for a slot");
  t->free_slots.push_back(fields.slot);
  progress_transfer(*t);
}

void endpoint::handle_fin(connection& c, buffer& b, std::size_t length) {
  wire::fin_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "end of an operation");
  transfer* t = transfers_.find(fields.operation);
  if (!t || t->connection != &c || fields.status < 0) return;
  t->peer_ended = true;
  complete(*t, fields.status);
}

void endpoint::handle_event(connection& c, buffer& b, std::size_t length) {
  wire::event_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "event");
  const int error = flush_at(fields.address);
  if (error)
    GAUDI_WARN(EP_DATA, "an RMA write of %s is reported without a flush: %s (FI_GAUDI_FLUSH)\n",
               c.remote->name.to_string().c_str(), fi_strerror(error));
  if (receive_queue_)
    receive_queue_->push({.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                          .length = fields.length,
                          .data = fields.data,
                          .source = c.remote->address});
  reports_are_behind() ? withhold_credit(c, c.withheld_events)
                       : c.control.consumed(wire::control_window);
}

void endpoint::handle_flush(connection& c, buffer& b, std::size_t length) {
  wire::event_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "request to flush");
  answer_flush(c, fields);
}

void endpoint::handle_copy_assist(connection& c, buffer& b, std::size_t length) {
  wire::copy_assist_fields fields;
  if (!parse(b, length, fields)) return malformed(c, "request for help");
  start_assist(c, fields);
}

void endpoint::handle_credit_release(connection& c, buffer& b, std::size_t length) {
  wire::credit_fields fields;
  if (!parse(b, length, fields) || fields.count > c.data.may_be_released())
    return malformed(c, "release of credits");
  connections_->credits().released(c, fields.count);
}

void endpoint::handle_closing(connection& c, const buffer& b) {
  any_waiting_ = true;
  const auto before = c.state;
  closer_.arrived(c, reinterpret_cast<const wire::header*>(b.bytes)->what);
  if (before == connection_state::closing && c.state == connection_state::connected) go_on_with(c);
}

void endpoint::handle_dmabuf_packet(connection& c, buffer& b, std::size_t length) {
  wire::dmabuf_ask_fields request;
  wire::dmabuf_fields sent;
  wire::allocation_fields freed;
  switch (reinterpret_cast<const wire::header*>(b.bytes)->what) {
    case wire::kind::ask_dmabuf:
      return parse(b, length, request) ? export_to_peer(c, request)
                                       : malformed(c, "request for a dma-buf");
    case wire::kind::dmabuf:
      if (!parse(b, length, sent) || sent.status < 0) return malformed(c, "dma-buf");
      return import_from_peer(c, sent);
    default:
      return parse(b, length, freed) ? forget_freed(c, freed) : malformed(c, "end of a dma-buf");
  }
}

}  // namespace gaudi::proto
