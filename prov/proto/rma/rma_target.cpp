// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/rma/rma_target.hpp"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>

#include "base/log.hpp"
#include "proto/channel/parse.hpp"
#include "proto/operation/rts.hpp"

namespace gaudi::proto {

bool rma_target::handle_write(connection& c, buffer& b, std::size_t length, bool rendezvous) {
  wire::rma_fields fields;
  wire::rts_fields rts{};
  const auto flags = reinterpret_cast<const wire::header*>(b.bytes)->flags;
  if (!parse(b, length, fields) ||
      (rendezvous ? !parse_rts(b.bytes + sizeof fields, length - sizeof fields, rts, flags) ||
                        rts.length != fields.length
                  : length - sizeof fields != fields.length)) {
    parts_.connections.malformed(c, "RMA write");
    return true;
  }
  const auto target = parts_.keys.find(fields.key, fields.address, fields.length, FI_REMOTE_WRITE);
  if (!target) {
    parts_.channel.send_fin(c, fields.operation, FI_EACCES);
    parts_.channel.consume(c);
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
  completion.queue = parts_.delivery.queue();
  completion.counter = counters_.writes;
  completion.mr_counter = (**target).peers_wrote;
  completion.flags = FI_RMA | FI_REMOTE_WRITE;
  completion.report = flags & wire::cq_data;
  completion.of_peer = true;
  const bool free =
      parts_.delivery.deliver(&c, m, b.bytes + sizeof fields, &b, completion,
                              local_memory::inside(**target, fields.address, fields.length));
  const bool must_wait = completion.report && parts_.delivery.reports_are_behind();
  must_wait ? parts_.delivery.withhold_credit(c, c.receives.withheld) : parts_.channel.consume(c);
  return free;
}

void rma_target::handle_read(connection& c, buffer& b, std::size_t length) {
  wire::rma_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "RMA read");
  const auto source = parts_.keys.find(fields.key, fields.address, fields.length, FI_REMOTE_READ);
  if (source && serve_read(c, fields, **source)) return;
  if (!source) parts_.channel.send_fin(c, fields.operation, FI_EACCES);
  parts_.channel.consume(c);
}

void rma_target::handle_event(connection& c, buffer& b, std::size_t length) {
  wire::event_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "event");
  const int error = parts_.flush.flush_at(c, fields.address);
  if (error)
    GAUDI_WARN(EP_DATA, "an RMA write of %s is reported without a flush: %s (FI_GAUDI_FLUSH)\n",
               c.remote->name.to_string().c_str(), fi_strerror(error));
  if (completion_queue* const queue = parts_.delivery.queue())
    queue->push({.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                 .length = fields.length,
                 .data = fields.data,
                 .source = c.remote->address});
  parts_.delivery.reports_are_behind()
      ? parts_.delivery.withhold_credit(c, c.receives.withheld_events)
      : c.control.consumed(wire::control_window);
}

void rma_target::handle_flush(connection& c, buffer& b, std::size_t length) {
  wire::event_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "request to flush");
  parts_.flush.answer(c, fields);
}

// The answer goes out in one message, or as a rendezvous of which we are the source. Whether the
// request's credit waits for that.
bool rma_target::serve_read(connection& c, const wire::rma_fields& request,
                            const reg::region& source) {
  const auto memory = local_memory::inside(source, request.address, request.length);
  buffer* b = parts_.channel.acquire_beyond_limit();
  if (!b) return refuse(c, request.operation, FI_ENOMEM);
  wire::fin_fields fields{};
  fields.operation = request.operation;
  completion_spec served;
  served.counter = counters_.reads;
  served.mr_counter = source.peers_read;
  const std::size_t whole = sizeof fields + memory.length();
  b->begin_message(whole);
  if (whole <= c.terms.eager_limit && !parts_.rendezvous.is_shorter(c, memory)) {
    b->on_sent = served;
    return reply_at_once(c, *b, fields, memory);
  }
  return reply_by_rendezvous(c, *b, fields, memory, served);
}

bool rma_target::refuse(connection& c, std::uint64_t operation, int error) {
  parts_.channel.send_fin(c, operation, error);
  return false;
}

bool rma_target::reply_at_once(connection& c, buffer& b, wire::fin_fields& fields,
                               const local_memory& memory) {
  fields.head = {wire::kind::read_reply, 0, 0, 0, c.terms.connection_id};
  std::memcpy(b.bytes, &fields, sizeof fields);
  if (const int ret = parts_.channel.load_payload(b, sizeof fields, memory, 0, memory.length())) {
    parts_.channel.recycle(b);
    return refuse(c, fields.operation, -ret);
  }
  parts_.channel.queue_answer(c, b);
  return true;
}

bool rma_target::reply_by_rendezvous(connection& c, buffer& b, wire::fin_fields& fields,
                                     const local_memory& memory, const completion_spec& served) {
  transfer* t = parts_.table.create(&c, memory, served);
  wire::rts_fields rts{};
  std::uint8_t flags = 0;
  const int ret = t ? parts_.rendezvous.offer(*t, rts, flags) : -FI_ENOMEM;
  if (ret) {
    if (t) parts_.completion.free(*t);
    parts_.channel.recycle(b);
    return refuse(c, fields.operation, -ret);
  }
  t->role = transfer_role::source;
  parts_.table.list_for_peer(*t);
  t->peer_operation = fields.operation;
  fields.head = {wire::kind::read_rts, flags, 0, 0, c.terms.connection_id};
  std::memcpy(b.bytes, &fields, sizeof fields);
  const std::size_t size = put_rts(b.bytes + sizeof fields, rts);
  b.length = sizeof fields + size;
  parts_.channel.queue_answer(c, b);
  return true;
}

}  // namespace gaudi::proto
