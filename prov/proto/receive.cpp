// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Matching receives and messages, whichever came first.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "proto/endpoint.hpp"

namespace gaudi::proto {

std::uint32_t endpoint::source_of(const incoming& wanted) {
  if (!how_.directed_receive || wanted.from == FI_ADDR_UNSPEC) return any_source;
  const peer* p = peer_at(wanted.from);
  return p ? p->number : any_source;
}

int endpoint::receive(const local_memory& memory, const incoming& wanted) {
  const std::uint32_t source = source_of(wanted);
  if (arrived_hook* found =
          queue_for(wanted.tagged).find_arrival(source, wanted.tag, wanted.ignore)) {
    auto& message = static_cast<unexpected&>(*found);
    queue_for(wanted.tagged).remove(message);
    deliver_kept(message, wanted.asked, memory);
    return 0;
  }
  posted_receive* r = receive_pool_.create();
  if (!r) return -FI_ENOMEM;
  r->tag = wanted.tag;
  r->ignore = wanted.ignore;
  r->source = source;
  r->asked = wanted.asked;
  r->memory = memory;
  queue_for(wanted.tagged).post(*r);
  return 0;
}

// Keeps a message in the receive buffer it came in, while there are enough of those; else in a
// copy. Beyond the limit the sender does not get its credit back until the message is taken, and so
// comes to a halt.
bool endpoint::keep_unexpected(connection& c, buffer& b, const message_info& m,
                               const std::byte* payload) {
  unexpected* kept = unexpected_pool_.create();
  if (!kept) {
    malformed(c, "message (no memory to keep it)");
    return true;
  }
  kept->tag = m.tag;
  kept->source = c.remote->number;
  kept->info = m;
  kept->on = &c;
  const std::size_t bytes = m.rendezvous ? 0 : m.length;
  bool free = true;
  if (bytes != 0 && held_buffers_ < how_.rx_buffers / 2) {
    kept->holder = &b;
    kept->payload = payload;
    ++held_buffers_;
    free = false;
  } else if (bytes != 0) {
    kept->copy.reset(new (std::nothrow) std::byte[bytes]);
    if (!kept->copy) {
      unexpected_pool_.destroy(kept);
      connections_->fail(c, FI_ENOMEM);
      return true;
    }
    std::memcpy(kept->copy.get(), payload, bytes);
    kept->payload = kept->copy.get();
  }
  unexpected_bytes_ += bytes + sizeof(unexpected);
  kept->credit_held = unexpected_bytes_ > how_.unexpected_limit;
  if (!kept->credit_held) consumed_data(c);
  queue_for(m.flags & wire::tagged).add_arrival(*kept);
  return free;
}

// The message has left its queue.
void endpoint::deliver_kept(unexpected& m, const request& asked, const local_memory& memory) {
  connection* c = m.on;
  const bool free = deliver(c, m.info, m.payload, m.holder, asked, memory);
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
    repost(*m.holder);
  }
  unexpected_bytes_ -= (m.info.rendezvous ? 0 : m.info.length) + sizeof(unexpected);
  if (m.credit_held && m.on) consumed_data(*m.on);
  unexpected_pool_.destroy(&m);
}

completion endpoint::describe(const message_info& m) const noexcept {
  completion entry;
  entry.flags = (m.flags & wire::cq_data) ? FI_REMOTE_CQ_DATA : 0;
  entry.length = m.length;
  entry.data = m.data;
  entry.tag = m.tag;
  entry.source = m.from->address;
  return entry;
}

// Brings a message to its memory. Whether `holder`, the buffer with the payload, is free again.
bool endpoint::deliver(connection* c, const message_info& m, const std::byte* payload,
                       buffer* holder, const request& asked, const local_memory& memory) {
  completion entry = describe(m);
  if (asked.many) entry.buffer = reinterpret_cast<void*>(memory[0].address);
  const std::size_t length = std::min(m.length, memory.length());
  if (length < m.length) {
    entry.error = FI_ETRUNC;
    entry.excess = m.length - length;
    entry.length = length;
  }
  const bool tell = m.flags & wire::want_done;
  if (!m.rendezvous && !memory.on_device()) {
    // An empty one that was kept has no payload at all.
    if (std::byte* bytes = memory.single_host(); bytes && length) {
      std::memcpy(bytes, payload, length);
    } else {
      memory.write(0, payload, length);
    }
    asked.end(entry);
    if (tell && c) send_done(*c, m.operation, 0);
    return true;
  }

  if (m.rendezvous && !c) {
    // The data stayed at a peer that is gone.
    entry.error = FI_ECONNRESET;
    asked.end(entry);
    return true;
  }
  transfer* t = new_transfer(c, memory, asked);
  if (!t) {
    entry.error = FI_ENOMEM;
    asked.end(entry);
    if (c && (tell || m.rendezvous)) send_done(*c, m.operation, FI_ENOMEM);
    return true;
  }
  t->result = entry;
  t->for_peer = asked.flags & FI_REMOTE_WRITE;
  t->length = length;
  t->peer_operation = m.operation;
  t->tell_peer = tell && c;
  t->memory.truncate(length);
  if (!m.rendezvous) return drain(*t, holder, payload);
  start_sink(*c, m.rts, m.flags & wire::staged, *t);
  return true;
}

int endpoint::peek(const incoming& wanted, bool claim, bool discard) {
  if (claim && claimed_.contains(wanted.asked.context)) return -FI_EINVAL;
  progress();
  match_queue& queue = queue_for(wanted.tagged);
  arrived_hook* found = queue.find_arrival(source_of(wanted), wanted.tag, wanted.ignore);
  request told = wanted.asked;
  told.report = true;
  told.tally = nullptr;  // nothing has been received
  if (!found) {
    told.end({.tag = wanted.tag, .error = FI_ENOMSG});
    return 0;
  }
  auto& message = static_cast<unexpected&>(*found);
  told.end(describe(message.info));
  if (claim) {
    queue.remove(message);
    claimed_.emplace(wanted.asked.context, &message);
  } else if (discard) {
    queue.remove(message);
    discard_message(message);
  }
  return 0;
}

int endpoint::receive_claimed(const local_memory& memory, const incoming& wanted, bool discard) {
  const auto found = claimed_.find(wanted.asked.context);
  if (found == claimed_.end()) return -FI_EINVAL;
  unexpected& message = *found->second;
  claimed_.erase(found);
  if (discard) {
    const completion entry = describe(message.info);
    discard_message(message);
    wanted.asked.end(entry);
  } else {
    deliver_kept(message, wanted.asked, memory);
  }
  return 0;
}

// The sender of a message that nobody wants must not wait for it.
void endpoint::discard_message(unexpected& m) {
  if (m.on && (m.info.rendezvous || (m.info.flags & wire::want_done)))
    send_done(*m.on, m.info.rendezvous ? m.info.rts.operation : m.info.operation, 0);
  forget(m);
}

int endpoint::cancel(void* context) {
  for (match_queue* queue : {&tagged_, &untagged_}) {
    posted_hook* found = queue->find_posted([&](const posted_hook& r) {
      return static_cast<const posted_receive&>(r).asked.context == context;
    });
    if (!found) continue;
    queue->remove(*found);
    auto& receive = static_cast<posted_receive&>(*found);
    if (receive.many) {
      cancel_many(receive);
    } else {
      receive.asked.end({.tag = receive.tag, .error = FI_ECANCELED});
    }
    receive_pool_.destroy(&receive);
    return 0;
  }
  return -FI_ENOENT;
}

}  // namespace gaudi::proto
