// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages that have a receive, and those that wait for one.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "base/make_room.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// Bytes that a message takes while it waits.
std::size_t footprint(const message_info& m) noexcept {
  return sizeof(unexpected) + (m.rendezvous ? 0 : m.length);
}

}  // namespace

base::result<std::uint32_t> endpoint::source_of(const recv_params& params) {
  if (!config_.directed_receive || params.from == FI_ADDR_UNSPEC) return any_source;
  const peer* p = peer_at(params.from);
  if (!p) return base::error{-FI_EINVAL};
  return p->number;
}

completion_spec endpoint::reported_here(completion_spec completion) const noexcept {
  if (!completion.shared) return completion;
  completion.queue = receive_queue_;
  completion.counter = receive_counter_;
  completion.report = completion.report || !receive_selective_;
  return completion;
}

// Keeps a message in the receive buffer it came in, while there are enough of those; else in a
// copy. Beyond the budget the sender does not get its credit back until messages are taken, and so
// comes to a halt.
bool endpoint::queue_unexpected(connection& c, buffer& b, const message_info& m,
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
    if (bytes != 0) std::memcpy(place, payload, bytes);
    kept->payload = place;
  }
  unexpected_.keep(c.remote->unexpected, footprint(m));
  if (unexpected_.is_exceeded(c.remote->unexpected, connections_->count())) {
    withhold_credit(c, c.withheld);
  } else {
    consume(c);
  }
  return !in_its_buffer;
}

// The message has left its queue.
void endpoint::deliver_unexpected(unexpected& m, const completion_spec& completion,
                                  const local_memory& memory) {
  connection* c = m.connection;
  const bool free = deliver(c, m.info, m.payload, m.holder, completion, memory);
  if (!free && m.holder) {
    // A device copies from the receive buffer, which goes back to the core after that.
    m.holder = nullptr;
    --held_buffers_;
  }
  forget(m);
}

void endpoint::forget(unexpected& m) {
  if (m.holder) {
    --held_buffers_;
    receive_buffers_->give_back(*m.holder);
  }
  unexpected_.drop(m.info.from->unexpected, footprint(m.info));
  // One message for another: what is kept does not grow.
  if (m.connection && m.connection->withheld != 0) {
    --m.connection->withheld;
    consumed_data(*m.connection);
  }
  receives_->unexpected_pool_.destroy(&m);
  if (!withholding_.empty()) return_withheld();
}

// `kind`: which of the connection's counters it goes to.
void endpoint::withhold_credit(connection& c, std::uint32_t& kind) noexcept {
  if (c.withheld + c.withheld_events == 0) {
    if (!base::make_room(withholding_)) return connections_->fail_soon(c, FI_ENOMEM);
    withholding_.push_back(c.id);
  }
  ++kind;
}

// Whether peers have reported more remote writes than the application has read: they need no
// receive of its for that.
bool endpoint::reports_are_behind() const noexcept {
  return receive_queue_ && receive_queue_->size() >= config_.unexpected_limit / sizeof(cq_entry);
}

// There is room again, for this peer or for all: the credits of messages that stay are returned,
// too. The receiver may be waiting for one that its peer has not sent yet.
void endpoint::return_withheld() {
  if (reports_are_behind()) return;
  std::erase_if(withholding_, [this](std::uint32_t id) {
    connection* const c = connections_->find(id);
    if (!c) return true;
    for (; c->withheld_events != 0; --c->withheld_events) c->control.consumed(wire::control_window);
    while (c->withheld != 0 &&
           !unexpected_.is_exceeded(c->remote->unexpected, connections_->count())) {
      --c->withheld;
      consumed_data(*c);
    }
    if (c->returns_due()) return_credits(*c);
    return c->withheld == 0;
  });
}

cq_entry describe(const message_info& m) noexcept {
  cq_entry entry;
  entry.flags = (m.flags & wire::cq_data) ? FI_REMOTE_CQ_DATA : 0;
  entry.length = m.length;
  entry.data = m.data;
  entry.tag = m.tag;
  entry.source = m.from->address;
  return entry;
}

// Brings a message to its memory. Whether `holder`, the buffer with the payload, is free again.
bool endpoint::deliver(connection* c, const message_info& m, const std::byte* payload,
                       buffer* holder, const completion_spec& completion,
                       const local_memory& memory) {
  cq_entry entry = describe(m);
  if (config_.source_errors && entry.source == FI_ADDR_NOTAVAIL)
    entry.unknown_source = &m.from->name;
  if (completion.many) entry.buffer = reinterpret_cast<void*>(memory[0].address);
  const std::size_t length = std::min(m.length, memory.length());
  if (length < m.length) {
    entry.error = FI_ETRUNC;
    entry.truncated_bytes = m.length - length;
    entry.length = length;
  }
  const bool tell = m.flags & wire::want_fin;
  if (!m.rendezvous && !memory.on_device()) {
    // An empty one that was kept has no payload at all.
    if (std::byte* bytes = memory.single_host(); bytes && length) {
      std::memcpy(bytes, payload, length);
    } else {
      memory.write(0, payload, length);
    }
    completion.end(entry);
    if (tell && c) send_fin(*c, m.operation, 0);
    return true;
  }

  if (m.rendezvous && !c) {
    // The data stayed at a peer that is gone.
    entry.error = FI_ECONNRESET;
    completion.end(entry);
    return true;
  }
  transfer* t = new_transfer(c, memory, completion);
  if (!t) {
    entry.error = FI_ENOMEM;
    completion.end(entry);
    if (c && (tell || m.rendezvous)) send_fin(*c, m.operation, FI_ENOMEM);
    return true;
  }
  t->result = entry;
  if (completion.flags & FI_REMOTE_WRITE) for_peers_.push_back(*t);
  t->length = length;
  t->peer_operation = m.operation;
  t->tell_peer = tell && c;
  t->memory.truncate(length);
  if (!m.rendezvous) return copy_out(*t, holder, payload);
  start_sink(*c, *m.rts, m.flags, *t);
  return true;
}

// The sender of a message that nobody wants must not wait for it.
void endpoint::discard_message(unexpected& m) {
  if (m.connection && (m.info.rendezvous || (m.info.flags & wire::want_fin)))
    send_fin(*m.connection, m.info.rendezvous ? m.info.rts->operation : m.info.operation, 0);
  forget(m);
}

}  // namespace gaudi::proto
