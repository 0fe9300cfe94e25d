// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/message/message_sender.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "copy/cpu_copy.hpp"
#include "proto/operation/rts.hpp"
#include "proto/transfer/operation_start.hpp"

namespace gaudi::proto {
namespace {

// Payload that a CPU copies.
[[gnu::always_inline]] inline void load(const local_memory& memory, std::byte* to) noexcept {
  if (const std::byte* const bytes = memory.single_host()) [[likely]] {
    copy::by_cpu(to, bytes, memory.length());
  } else {
    memory.read(0, to, memory.length());
  }
}

// A message that has left at once.
[[gnu::always_inline]] inline void tell_sent(const completion_spec& completion) noexcept {
  if (completion.is_plain()) [[likely]] {
    completion.queue->push({}, completion.context, completion.flags);
  } else {
    completion.end({});
  }
}

}  // namespace

// Whether it goes into the peer's ring as it is.
inline bool message_sender::is_for_ring(const connection& c, const local_memory& memory,
                                        const send_params& message) const noexcept {
  const std::size_t length = memory.length();
  return c.shm && !memory.on_device() && !message.delivery &&
         length + sizeof(wire::eager_fields) <= c.terms.eager_limit && c.outbox.ordered.empty() &&
         (length <= max_by_ring_ || !parts_.rendezvous.is_shorter(c, memory));
}

inline bool message_sender::is_eager(const connection& c, const local_memory& memory,
                                     const send_params& message) const noexcept {
  return memory.length() + sizeof(wire::eager_fields) <= c.terms.eager_limit &&
         (message.inject || !c.shm || !parts_.rendezvous.is_shorter(c, memory));
}

// The shortest way: header and payload are written where the peer reads them.
int message_sender::send_shm(connection& c, const local_memory& memory,
                             const send_params& message) {
  const std::size_t start = wire::eager_size(message.wire_flags);
  const std::size_t length = memory.length();
  std::byte* const packet = shm_transport::reserve_packet(c, start + length);
  if (!packet) [[unlikely]]
    return -FI_EAGAIN;
  auto& fields = *reinterpret_cast<wire::eager_fields*>(packet);
  c.fill_header(fields.head, wire::kind::eager, message.wire_flags);
  fields.tag = message.tag;
  if (message.wire_flags & wire::cq_data) fields.data = message.data;
  load(memory, packet + start);
  parts_.shm.commit(c);
  c.data.sent();
  parts_.channel.count_eager(c, length);
  tell_sent(message.completion);
  return 0;
}

// The shortest way: one copy on the stack, no completion of the core to wait for.
inline int message_sender::send_injected(connection& c, const local_memory& memory,
                                         const send_params& message) {
  alignas(8) std::byte packet[256];
  auto& fields = *reinterpret_cast<wire::eager_fields*>(packet);
  const std::size_t start = wire::eager_size(message.wire_flags);
  fields.head = {wire::kind::eager, message.wire_flags, 0, 0, c.terms.connection_id};
  fields.tag = message.tag;
  if (message.wire_flags & wire::cq_data) fields.data = message.data;
  load(memory, packet + start);
  if (const int ret = parts_.transport.inject(c, packet, start + memory.length())) return ret;
  c.data.sent();
  tell_sent(message.completion);
  return 0;
}

inline int message_sender::send_eager(connection& c, const local_memory& memory,
                                      const send_params& message) {
  const bool plain = !memory.on_device() && !message.delivery && c.outbox.ordered.empty();
  if (!plain && !c.shm && can_gather(memory, message)) {
    const int ret = send_buffered(c, memory, message, true);
    if (ret == 0) count_gathered(memory);
    return ret;
  }
  int ret;
  if (plain && !message.transmit && !c.shm &&
      wire::eager_size(message.wire_flags) + memory.length() <=
          parts_.transport.limits().max_inject) {
    ret = send_injected(c, memory, message);
  } else {
    ret = send_buffered(c, memory, message, false);
  }
  if (ret == 0) parts_.channel.count_eager(c, memory.length());
  return ret;
}

inline int message_sender::send_otherwise(connection& c, const local_memory& memory,
                                          const send_params& message) {
  return is_eager(c, memory, message) ? send_eager(c, memory, message)
                                      : send_rendezvous(c, memory, message);
}

int message_sender::send(connection& c, const local_memory& memory, const send_params& message) {
  return is_for_ring(c, memory, message) ? send_shm(c, memory, message)
                                         : send_otherwise(c, memory, message);
}

// What is posted after them waits for them.
inline void message_sender::hold_back(connection& c) noexcept {
  if (!std::exchange(c.rma_order.holds_early, true)) ++c.rma_order.pending;
}

// A peer that computes takes nothing for a while; messages to it are no reason to stop as well.
inline bool message_sender::is_stalled(connection& c) const noexcept {
  const bool any_rma = c.rma_order.pending != (c.rma_order.holds_early ? 1U : 0U);
  if (any_rma) return true;
  if (std::exchange(c.silence.refused_at, c.silence.packets) != c.silence.packets)
    c.silence.refused = 0;
  if (c.silence.refused >= refusals_before_waiting_) return true;
  ++c.silence.refused;
  return false;
}

int message_sender::send_early(peer& p, const local_memory& memory, const send_params& message) {
  connection* const c = p.current;
  const bool is_connected = c && c->state == connection_state::connected;
  if (is_connected && !is_stalled(*c)) return -FI_EAGAIN;
  if (const int error = memory.loss()) return -error;
  const int ret = early_.keep(p, memory, message);
  if (ret == 0 && is_connected) hold_back(*c);
  return ret;
}

void message_sender::post_early(peer& p) {
  connection& c = *p.current;
  hold_back(c);
  const bool over = early_.post(p, [&](const early_sends::message& m) {
    // RMA that was posted before them may have left in part only.
    const bool is_first = c.rma_order.pending == 1;
    if (!c.data.can_send() || !is_first) return -FI_EAGAIN;
    // One that waited for a credit while the endpoint closes: what was the last packet is no more.
    c.closing.last_word.take_back();
    return send(c, m.memory, m.what);
  });
  if (!over) return;
  c.rma_order.holds_early = false;
  --c.rma_order.pending;
}

void message_sender::connection_up(connection& c) {
  if (c.remote->early != 0 && c.remote->current == &c) post_early(*c.remote);
}

// They tell the application of the error, so no operation has to.
void message_sender::connection_down(const connection& c, int error) {
  if (c.closing.is_wanted() || c.remote->current) return;
  if (early_.fail(*c.remote, error)) c.remote->last_error = 0;
}

void message_sender::progress_early() {
  early_.for_each_peer([this](peer& p) {
    const auto c = parts_.connections.get_connection(p);
    if (c) {
      parts_.connections.on_behalf_of(*c, [&] { post_early(p); });
    } else if (c.code() != -FI_EAGAIN) {
      early_.fail(p, -c.code());
    }
  });
}

bool message_sender::early_wait_unnoticed() const noexcept {
  return early_.any_of([](const peer& p) {
    const connection* const c = p.current;
    if (!c) return true;
    const bool is_first = c->rma_order.pending <= 1;
    return c->state == connection_state::connected && c->data.can_send() && is_first;
  });
}

int message_sender::send_buffered(connection& c, const local_memory& memory,
                                  const send_params& message, bool gather) {
  buffer* b = parts_.channel.acquire();
  if (!b) return why_nothing_left(parts_.channel, parts_.table);
  transfer* t = nullptr;
  std::uint8_t flags = message.wire_flags;
  if (message.delivery) {
    t = parts_.table.create(&c, {}, message.completion);
    if (!t) {
      parts_.channel.release(*b);
      return why_nothing_left(parts_.channel, parts_.table);
    }
    t->role = transfer_role::source;
    t->strategy = transfer_strategy::copy_out;  // nothing to grant
    flags |= wire::want_fin;
  }
  auto& fields = *reinterpret_cast<wire::eager_fields*>(b->bytes);
  const std::size_t start = wire::eager_size(flags);
  fields.head = {wire::kind::eager, flags, 0, 0, c.terms.connection_id};
  fields.tag = message.tag;
  if (start > offsetof(wire::eager_fields, data)) fields.data = message.data;
  if (t) fields.operation = t->id;
  b->begin_message(start, t ? t->id : 0);
  if (!t) b->on_sent = message.completion;
  b->transmit = message.transmit;

  int ret = 0;
  if (gather) {
    b->gathered = memory;
  } else {
    b->length += memory.length();
    ret = parts_.channel.load_payload(*b, start, memory, 0, memory.length());
  }
  if (ret == 0 && message.inject) ret = parts_.copies.wait_for(*b);
  if (ret == 0) ret = parts_.channel.submit(c, *b);
  if (ret) {
    if (t) parts_.completion.free(*t);
    parts_.channel.recycle(*b);
  }
  return ret;
}

int message_sender::send_rendezvous(connection& c, const local_memory& memory,
                                    const send_params& message) {
  latency_sampler::become_rendezvous(message.completion);
  const operation_start start = start_operation(parts_.channel, parts_.table, c, memory,
                                                message.completion, transfer_role::source);
  if (!start) return why_nothing_left(parts_.channel, parts_.table);
  buffer* const b = start.message;
  transfer* const t = start.operation;
  std::uint8_t flags = message.wire_flags;
  wire::eager_fields fields{};
  fields.tag = message.tag;
  fields.data = message.data;
  fields.operation = t->id;
  wire::rts_fields rts{};
  int ret = parts_.rendezvous.offer(*t, rts, flags);
  if (ret == 0) {
    fields.head = {wire::kind::rts, static_cast<std::uint8_t>(flags | wire::want_fin), 0, 0,
                   c.terms.connection_id};
    std::memcpy(b->bytes, &fields, sizeof fields);
    const std::size_t size = put_rts(b->bytes + sizeof fields, rts);
    b->begin_message(sizeof fields + size, t->id);
    ret = parts_.channel.submit(c, *b);
  }
  if (ret) abort_operation(parts_.channel, parts_.completion, start);
  return ret;
}

// Whether the core can send the payload straight from where it is. From the host a copy is cheaper
// than to keep the application's buffer until the peer has it.
bool message_sender::can_gather(const local_memory& memory,
                                const send_params& message) const noexcept {
  if (!memory.on_device() || message.inject ||
      memory.length() <= parts_.transport.limits().max_inlined)
    return false;
  if (memory.count() >= parts_.transport.core().info().tx_attr->iov_limit)
    return false;  // one more for the header
  for (std::size_t i = 0; i < memory.count(); ++i) {
    if (!memory[i].core_descriptor()) return false;
  }
  return true;
}

void message_sender::count_gathered(const local_memory& memory) noexcept {
  ++parts_.paths.direct_ops;
  parts_.paths.direct_bytes += memory.length();
  ++parts_.paths.zero_copy_ops;
  parts_.paths.zero_copy_bytes += memory.length();
  for (std::size_t i = 0; i < memory.count(); ++i) {
    if (memory[i].owner) memory[i].owner->counted().zero_copy_bytes.add(memory[i].length);
  }
}

}  // namespace gaudi::proto
