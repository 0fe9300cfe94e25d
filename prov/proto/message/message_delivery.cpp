// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/message/message_delivery.hpp"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/make_room.hpp"
#include "base/probes.hpp"
#include "copy/cpu_copy.hpp"
#include "proto/operation/rts.hpp"

namespace gaudi::proto {
namespace {

// Bytes that a message takes while it waits.
std::size_t footprint(const message_info& m) noexcept {
  return sizeof(unexpected) + (m.rendezvous ? 0 : m.length);
}

// What its completion says where nothing goes wrong.
[[gnu::always_inline]] inline cq_entry entry_of(const message_info& m) noexcept {
  cq_entry entry;
  entry.flags = (m.flags & wire::cq_data) ? FI_REMOTE_CQ_DATA : 0;
  entry.length = m.length;
  entry.data = m.data;
  entry.tag = m.tag;
  entry.source = m.from->address;
  return entry;
}

// What a message says of itself, short or long.
[[gnu::always_inline]] inline message_info info_of(const connection& c,
                                                   const wire::eager_fields& fields) noexcept {
  message_info m;
  m.from = c.remote;
  m.flags = fields.head.flags;
  if (m.flags & wire::tagged) m.tag = fields.tag;
  if (m.flags & wire::cq_data) m.data = fields.data;
  return m;
}

// The receive that takes a message of the connection's peer, or null.
[[gnu::always_inline]] inline posted_receive* find_receive(match_queue& queue, const connection& c,
                                                           std::uint64_t tag) noexcept {
  return static_cast<posted_receive*>(queue.find_posted_for(c.remote->number, tag));
}

}  // namespace

message_delivery::message_delivery(const endpoint_settings& config, parts collaborators)
    : config_(config),
      parts_(collaborators),
      own_receives_(std::make_unique<receive_context>(
          receive_context::default_min_multi_recv(config.eager_size))),
      receives_(own_receives_.get()),
      unexpected_(config.unexpected_limit) {
  receives_->add(*this, config_.directed_receive);
}

void message_delivery::share(receive_context& with) {
  receives_->remove(*this);
  own_receives_.reset();
  receives_ = &with;
  receives_->add(*this, config_.directed_receive);
  for (const auto& p : parts_.connections.peers().all()) p->number = receives_->number_of(p->name);
}

base::result<std::uint32_t> message_delivery::source_of(const recv_params& params) const {
  if (!config_.directed_receive || params.from == FI_ADDR_UNSPEC) return any_source;
  const peer* p = parts_.addresses.meet(params.from);
  if (!p) return base::error{-FI_EINVAL};
  return p->number;
}

completion_spec message_delivery::reported_here(completion_spec completion) const noexcept {
  if (!completion.shared) return completion;
  completion.queue = queue_;
  completion.counter = counter_;
  completion.report = completion.report || !selective_;
  return completion;
}

inline bool message_delivery::deliver_now(connection* c, const message_info& m,
                                          const std::byte* payload, buffer* holder,
                                          const completion_spec& completion,
                                          const local_memory& memory) {
  cq_entry entry = entry_of(m);
  if (config_.source_errors && entry.source == FI_ADDR_NOTAVAIL)
    entry.unknown_source = &m.from->name;
  // A receive has no other hook yet.
  if (completion.hook) entry.buffer = reinterpret_cast<void*>(memory[0].address);
  const std::size_t length = std::min(m.length, memory.length());
  if (length < m.length) {
    entry.error = FI_ETRUNC;
    entry.truncated_bytes = m.length - length;
    entry.length = length;
  }
  if (m.rendezvous || memory.on_device())
    return deliver_by_transfer(c, m, payload, holder, completion, memory, entry);
  // An empty one that was kept has no payload at all.
  if (std::byte* bytes = memory.single_host(); bytes && length) {
    copy::by_cpu(bytes, payload, length);
  } else {
    memory.write(0, payload, length);
  }
  completion.end(entry);
  if ((m.flags & wire::want_fin) && c) parts_.channel.send_fin(*c, m.operation, 0);
  return true;
}

// The short way. False: it is another message, or another receive, than those it is for.
inline bool message_delivery::deliver_plainly(const connection& c, const wire::eager_fields& fields,
                                              std::span<const std::byte> payload,
                                              match_queue& queue,
                                              posted_receive& receive) noexcept {
  const std::size_t length = payload.size();
  const fi_addr_t source = c.remote->address;
  const std::uint8_t flags = fields.head.flags;
  const bool is_plain = receive.is_plain && !(flags & wire::want_fin) &&
                        length <= receive.memory.length() &&
                        !(config_.source_errors && source == FI_ADDR_NOTAVAIL);
  if (!is_plain) [[unlikely]]
    return false;
  const bool has_data = flags & wire::cq_data;
  const std::uint64_t tag = (flags & wire::tagged) ? fields.tag : 0;
  base::probes::match(source, tag, length, 0);
  queue.remove(receive);
  copy::by_cpu(receive.memory[0].host(), payload.data(), length);
  const completion_spec& completion = receive.completion;
  completion.queue->push({.flags = has_data ? FI_REMOTE_CQ_DATA : 0,
                          .length = length,
                          .data = has_data ? fields.data : 0,
                          .tag = tag,
                          .source = source},
                         completion.context, completion.flags);
  receives_->receive_pool_.destroy(&receive);
  return true;
}

inline bool message_delivery::accept(connection& c, buffer& b, const message_info& m,
                                     const std::byte* payload, posted_receive* matched) {
  if (!matched) return queue_unexpected(c, b, m, payload);
  match_queue& queue = receives_->queue_for(m.flags & wire::tagged);
  posted_receive& receive = *matched;
  base::probes::match(m.from->address, m.tag, m.length, 0);
  bool free;
  if (receive.many) [[unlikely]] {
    free = deliver_into_many(c, m, payload, b, receive);
  } else {
    queue.remove(receive);
    if (receive.completion.shared) [[unlikely]]
      receive.completion = reported_here(receive.completion);
    free = deliver_now(&c, m, payload, &b, receive.completion, receive.memory);
    receives_->receive_pool_.destroy(&receive);
  }
  parts_.channel.consume(c);
  return free;
}

bool message_delivery::handle_message(connection& c, buffer& b, std::size_t length) {
  const auto& fields = *reinterpret_cast<const wire::eager_fields*>(b.bytes);
  const auto flags = fields.head.flags;
  const std::size_t start = wire::eager_size(flags);
  if (length < start) {
    parts_.connections.malformed(c, "message");
    return true;
  }
  match_queue& queue = receives_->queue_for(flags & wire::tagged);
  posted_receive* const receive = find_receive(queue, c, (flags & wire::tagged) ? fields.tag : 0);
  if (!receive || !deliver_plainly(c, fields, {b.bytes + start, length - start}, queue, *receive))
      [[unlikely]]
    return handle_other_message(c, b, length, receive);
  parts_.channel.consume(c);
  return true;
}

bool message_delivery::handle_other_message(connection& c, buffer& b, std::size_t length,
                                            posted_receive* receive) {
  const auto& fields = *reinterpret_cast<const wire::eager_fields*>(b.bytes);
  const std::size_t start = wire::eager_size(fields.head.flags);
  message_info m = info_of(c, fields);
  if (m.flags & wire::want_fin) m.operation = fields.operation;
  m.length = length - start;
  return accept(c, b, m, b.bytes + start, receive);
}

bool message_delivery::deliver_in_place(const connection& c, const wire::eager_fields& fields,
                                        std::span<const std::byte> payload) noexcept {
  const bool tagged = fields.head.flags & wire::tagged;
  match_queue& queue = receives_->queue_for(tagged);
  posted_receive* const receive = find_receive(queue, c, tagged ? fields.tag : 0);
  return receive && deliver_plainly(c, fields, payload, queue, *receive);
}

bool message_delivery::handle_rts(connection& c, buffer& b, std::size_t length) {
  constexpr std::size_t start = sizeof(wire::eager_fields);
  const auto& fields = *reinterpret_cast<const wire::eager_fields*>(b.bytes);
  const auto flags = fields.head.flags;
  wire::rts_fields rts;
  if (length < start || !parse_rts(b.bytes + start, length - start, rts, flags)) {
    parts_.connections.malformed(c, "rendezvous");
    return true;
  }
  message_info m = info_of(c, fields);
  m.operation = fields.operation;
  m.rendezvous = true;
  m.length = rts.length;
  m.rts = &rts;
  match_queue& queue = receives_->queue_for(flags & wire::tagged);
  return accept(c, b, m, b.bytes + start, find_receive(queue, c, m.tag));
}

// Keeps a message in the receive buffer it came in, while there are enough of those; else in a
// copy. Beyond the budget the sender does not get its credit back until messages are taken, and so
// comes to a halt.
bool message_delivery::queue_unexpected(connection& c, buffer& b, message_info m,
                                        const std::byte* payload) {
  unexpected* kept = receives_->unexpected_pool_.create();
  if (!kept) throw untouched();
  kept->tag = m.tag;
  kept->source = c.remote->number;
  kept->info = m;
  kept->owner = this;
  kept->connection = &c;
  const std::size_t bytes = m.rendezvous ? 0 : m.length;
  const bool fits = bytes <= sizeof kept->inside;
  const bool in_its_buffer = !fits && held_buffers_ < config_.rx_buffers / 2;
  try {
    if (!fits && !in_its_buffer) kept->copy.reset(new std::byte[bytes]);
    receives_->queue_for(m.flags & wire::tagged).add_arrival(*kept);
  } catch (const std::bad_alloc&) {
    receives_->unexpected_pool_.destroy(kept);
    throw untouched();
  }
  if (m.rendezvous) {
    kept->rts = *m.rts;
    kept->info.rts = &kept->rts;
  } else if (in_its_buffer) {
    kept->holder = &b;
    kept->payload = payload;
    ++held_buffers_;
  } else {
    std::byte* const place = fits ? kept->inside : kept->copy.get();
    if (bytes != 0) copy::by_cpu(place, payload, bytes);
    kept->payload = place;
  }
  unexpected_.keep(c.remote->unexpected, footprint(m));
  if (unexpected_.is_exceeded(c.remote->unexpected, parts_.connections.count())) {
    withhold_credit(c, c.receives.withheld);
  } else {
    parts_.channel.consume(c);
  }
  return !in_its_buffer;
}

// The message has left its queue.
void message_delivery::deliver_unexpected(unexpected& m, const completion_spec& completion,
                                          const local_memory& memory) {
  connection* c = m.connection;
  base::probes::match(m.info.from->address, m.info.tag, m.info.length, 1);
  const bool free = deliver(c, m.info, m.payload, m.holder, completion, memory);
  if (!free && m.holder) {
    // A device copies from the receive buffer, which goes back to the core after that.
    m.holder = nullptr;
    --held_buffers_;
  }
  forget(m);
}

void message_delivery::forget(unexpected& m) {
  if (m.holder) {
    --held_buffers_;
    parts_.buffers.give_back(*m.holder);
  }
  unexpected_.drop(m.info.from->unexpected, footprint(m.info));
  // One message for another: what is kept does not grow.
  if (m.connection && m.connection->receives.withheld != 0) {
    --m.connection->receives.withheld;
    parts_.channel.consumed_data(*m.connection);
  }
  receives_->unexpected_pool_.destroy(&m);
  if (!withholding_.empty()) return_withheld();
}

void message_delivery::withhold_credit(connection& c, std::uint32_t& kind) noexcept {
  if (c.receives.withheld + c.receives.withheld_events == 0) {
    if (!base::make_room(withholding_)) return parts_.connections.fail_soon(c, FI_ENOMEM);
    withholding_.push_back(c.id);
  }
  ++kind;
}

bool message_delivery::reports_are_behind() const noexcept {
  return queue_ && queue_->size() >= config_.unexpected_limit / sizeof(cq_entry);
}

void message_delivery::return_withheld() {
  if (reports_are_behind()) return;
  std::erase_if(withholding_, [this](std::uint32_t id) {
    connection* const c = parts_.connections.find(id);
    if (!c) return true;
    for (; c->receives.withheld_events != 0; --c->receives.withheld_events)
      c->control.consumed(wire::control_window);
    while (c->receives.withheld != 0 &&
           !unexpected_.is_exceeded(c->remote->unexpected, parts_.connections.count())) {
      --c->receives.withheld;
      parts_.channel.consumed_data(*c);
    }
    if (c->returns_due()) parts_.channel.return_credits(*c);
    return c->receives.withheld == 0;
  });
}

cq_entry describe(const message_info& m) noexcept {
  return entry_of(m);
}

bool message_delivery::deliver(connection* c, const message_info& m, const std::byte* payload,
                               buffer* holder, const completion_spec& completion,
                               const local_memory& memory) {
  return deliver_now(c, m, payload, holder, completion, memory);
}

transfer* message_delivery::create_transfer(connection* c, bool is_rendezvous,
                                            const completion_spec& completion,
                                            const local_memory& memory) {
  using stream = latency_sampler::stream;
  if (!is_rendezvous || completion.of_peer || !parts_.latencies.is_due(stream::receive)) [[likely]]
    return parts_.table.create(c, memory, completion);
  completion_spec timed = completion;
  parts_.latencies.begin(stream::receive, latency_sampler::kind::rendezvous_receive, timed);
  transfer* const t = parts_.table.create(c, memory, timed);
  if (!t && !completion.hook) latency_sampler::drop(timed);
  return t;
}

// What is not in host memory when this returns.
bool message_delivery::deliver_by_transfer(connection* c, message_info m, const std::byte* payload,
                                           buffer* holder, const completion_spec& completion,
                                           const local_memory& memory, cq_entry entry) {
  const bool tell = m.flags & wire::want_fin;
  if (m.rendezvous && !c) {
    // The data stayed at a peer that is gone.
    entry.error = FI_ECONNRESET;
    completion.end(entry);
    return true;
  }
  transfer* t = create_transfer(c, m.rendezvous, completion, memory);
  if (!t) {
    entry.error = FI_ENOMEM;
    completion.end(entry);
    if (c && (tell || m.rendezvous)) parts_.channel.send_fin(*c, m.operation, FI_ENOMEM);
    return true;
  }
  t->outcome.entry = entry;
  if (completion.flags & FI_REMOTE_WRITE) parts_.table.list_for_peer(*t);
  t->length = std::min(m.length, memory.length());
  t->peer_operation = m.operation;
  t->ending.tell_peer = tell && c;
  t->memory.truncate(t->length);
  if (!m.rendezvous) return parts_.mover.copy_out(*t, holder, payload);
  parts_.sink.start(*c, *m.rts, m.flags, *t);
  return true;
}

// The sender of a message that nobody wants must not wait for it.
void message_delivery::discard_message(unexpected& m) {
  if (m.connection && (m.info.rendezvous || (m.info.flags & wire::want_fin)))
    parts_.channel.send_fin(*m.connection,
                            m.info.rendezvous ? m.info.rts->operation : m.info.operation, 0);
  forget(m);
}

bool message_delivery::deliver_into_many(connection& c, message_info m, const std::byte* payload,
                                         buffer& holder, posted_receive& r) {
  const completion_spec completion = reported_here(r.completion);
  const local_memory place = r.memory;
  if (!receive_context::reserve(r, m.length)) {
    receives_->untagged_.remove(r);
    receives_->receive_pool_.destroy(&r);
  }
  return deliver(&c, m, payload, &holder, completion, place);
}

void message_delivery::connection_down(connection& c) {
  receives_->for_each_arrived([&](match_queue& queue, unexpected& m) {
    if (m.connection != &c) return;
    m.connection = nullptr;
    if (!m.info.rendezvous) return;
    queue.remove(m);
    forget(m);
  });
  for (auto& [context, m] : receives_->claimed_) {
    if (m->connection == &c) m->connection = nullptr;
  }
}

}  // namespace gaudi::proto
