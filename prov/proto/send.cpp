// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a message leaves: the choice of protocol, and messages that fit one packet.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/make_room.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {

base::result<connection*> endpoint::data_connection(fi_addr_t to) {
  peer* p = peer_at(to);
  if (!p) return base::error{-FI_EINVAL};
  const auto open = [](const connection& on) {
    return on.data.can_send() && on.ordered_rma_pending == 0;
  };
  auto c = connections_->get_connection(*p);
  if (c && open(**c)) return c;
  if (!c && c.code() != -FI_EAGAIN) return c;
  // An application that only repeats the send must get there, too.
  progress();
  c = connections_->get_connection(*p);
  if (c && !open(**c)) {
    ++paths_.peer_stalls;
    return base::error{-FI_EAGAIN};
  }
  return c;
}

bool endpoint::is_quiet(fi_addr_t with) {
  const peer* p = peer_at(with);
  const connection* c = p ? p->current : nullptr;
  const bool any_early = p && p->early != 0;
  if (!c && !any_early) return true;
  const bool moving =
      any_early || std::any_of(c->transfers.begin(), c->transfers.end(),
                               [](const transfer& t) { return !t.for_peer_hook.is_linked(); });
  if (!moving && c->posted.empty() && c->ordered.empty()) return true;
  progress();
  return false;
}

inline bool endpoint::is_eager(const connection& c, const local_memory& memory,
                               const send_params& message) const noexcept {
  return memory.length() + sizeof(wire::eager_fields) <= c.eager_limit &&
         (message.inject || !nic_is_shorter(c, memory));
}

int endpoint::send(const local_memory& memory, const send_params& message) {
  const auto c = data_connection(message.to);
  if (!c) return c.code() == -FI_EAGAIN ? send_early(memory, message) : c.code();
  const int ret = is_eager(**c, memory, message) ? send_eager(**c, memory, message)
                                                 : send_rendezvous(**c, memory, message);
  // Out of buffers, or of room in the core: an application that only repeats the send must get
  // there, too.
  if (ret == -FI_EAGAIN) {
    ++paths_.local_stalls;
    progress();
  }
  return ret;
}

// What waits for credits is the application's to repeat; what waits for a connection is not.
int endpoint::send_early(const local_memory& memory, const send_params& message) {
  peer& p = *peer_at(message.to);
  const bool is_connected = p.current && p.current->state == connection_state::connected;
  if (is_connected && p.early == 0) return -FI_EAGAIN;
  if (const int error = memory.loss()) return -error;
  any_waiting_ = true;
  return early_.keep(p, memory, message);
}

// Before everything that is posted after them.
void endpoint::post_early(peer& p) {
  connection& c = *p.current;
  if (!std::exchange(c.holds_early, true)) ++c.ordered_rma_pending;
  const bool over = early_.post(p, [&](const early_sends::message& m) {
    if (!c.data.can_send()) return -FI_EAGAIN;
    return is_eager(c, m.memory, m.what) ? send_eager(c, m.memory, m.what)
                                         : send_rendezvous(c, m.memory, m.what);
  });
  if (!over) return;
  c.holds_early = false;
  --c.ordered_rma_pending;
}

void endpoint::go_on_with_early() {
  for (peer* const p : early_.peers()) {
    const auto c = connections_->get_connection(*p);
    if (c) {
      on_behalf_of(*c, [&] { post_early(*p); });
    } else if (c.code() != -FI_EAGAIN) {
      early_.fail(*p, -c.code());
    }
  }
}

// Whether some wait for what nobody tells of: the end of a pause between requests, or room here.
// Credits come by message.
bool endpoint::early_wait_unnoticed() const noexcept {
  return early_.any_of([](const peer& p) {
    return !p.current ||
           (p.current->state == connection_state::connected && p.current->data.can_send());
  });
}

void endpoint::fill_header(connection& c, wire::header& h, wire::kind what,
                           std::uint8_t flags) noexcept {
  h = {what, flags, c.data.take_returnable(), c.control.take_returnable(), c.remote_id};
}

int endpoint::send_eager(connection& c, const local_memory& memory, const send_params& message) {
  const std::size_t fields = wire::eager_size(message.wire_flags);
  const bool plain = !memory.on_device() && !message.delivery && c.ordered.empty();
  if (!c.shm && can_gather(memory, message)) {
    const int ret = send_buffered(c, memory, message, true);
    if (ret == 0) count_gathered(memory);
    return ret;
  }
  int ret;
  if (c.shm && plain) {
    ret = shm_send(c, memory, message);
  } else if (plain && !message.transmit && fields + memory.length() <= core_inject_) {
    ret = send_injected(c, memory, message);
  } else {
    ret = send_buffered(c, memory, message, false);
  }
  if (ret == 0) count_eager(c, memory.length());
  return ret;
}

void endpoint::count_eager(const connection& c, std::size_t length) noexcept {
  ++paths_.eager_ops;
  paths_.eager_bytes += length;
  if (c.shm) ++paths_.shm_ops;
}

// Whether the core can send the payload straight from where it is. From the host a copy is cheaper
// than to keep the application's buffer until the peer has it.
bool endpoint::can_gather(const local_memory& memory, const send_params& message) const noexcept {
  if (!memory.on_device() || message.inject || memory.length() <= inline_limit_) return false;
  if (memory.count() >= core_.info().tx_attr->iov_limit) return false;  // one more for the header
  for (std::size_t i = 0; i < memory.count(); ++i) {
    if (!memory[i].core_descriptor()) return false;
  }
  return true;
}

void endpoint::count_gathered(const local_memory& memory) noexcept {
  ++paths_.direct_ops;
  paths_.direct_bytes += memory.length();
  ++paths_.zero_copy_ops;
  paths_.zero_copy_bytes += memory.length();
  for (std::size_t i = 0; i < memory.count(); ++i) {
    if (memory[i].owner) memory[i].owner->counted().zero_copy_bytes.add(memory[i].length);
  }
}

// The shortest way: one copy on the stack, no completion of the core to wait for.
int endpoint::send_injected(connection& c, const local_memory& memory, const send_params& message) {
  alignas(8) std::byte packet[256];
  auto& fields = *reinterpret_cast<wire::eager_fields*>(packet);
  const std::size_t start = wire::eager_size(message.wire_flags);
  const credit_window data_before = c.data;
  const credit_window control_before = c.control;
  fill_header(c, fields.head, wire::kind::eager, message.wire_flags);
  fields.tag = message.tag;
  if (message.wire_flags & wire::cq_data) fields.data = message.data;
  if (std::byte* bytes = memory.single_host()) {
    std::memcpy(packet + start, bytes, memory.length());
  } else {
    memory.read(0, packet + start, memory.length());
  }
  const ssize_t ret = fi_inject(c.ep.get(), packet, start + memory.length(), 0);
  if (ret) {
    c.data = data_before;
    c.control = control_before;
    return static_cast<int>(ret);
  }
  c.data.sent();
  message.completion.end({});
  return 0;
}

// Where there was no buffer or no transfer for an operation: those of others come back, and without
// others there is no memory.
int endpoint::why_nothing_left() const noexcept {
  const bool comes_back =
      send_buffers_->in_use() != 0 || injected_->in_use() != 0 || transfers_.size() != 0;
  return comes_back ? -FI_EAGAIN : -FI_ENOMEM;
}

int endpoint::send_buffered(connection& c, const local_memory& memory, const send_params& message,
                            bool gather) {
  buffer* b = send_buffers_->acquire();
  if (!b) return why_nothing_left();
  transfer* t = nullptr;
  std::uint8_t flags = message.wire_flags;
  if (message.delivery) {
    t = new_transfer(&c, {}, message.completion);
    if (!t) {
      send_buffers_->release(*b);
      return why_nothing_left();
    }
    t->role = transfer_role::source;
    t->strategy = transfer_strategy::copy_out;  // nothing to grant
    flags |= wire::want_fin;
  }
  auto& fields = *reinterpret_cast<wire::eager_fields*>(b->bytes);
  const std::size_t start = wire::eager_size(flags);
  fields.head = {wire::kind::eager, flags, 0, 0, c.remote_id};
  fields.tag = message.tag;
  if (start > offsetof(wire::eager_fields, data)) fields.data = message.data;
  if (t) fields.operation = t->id;
  b->length = start;
  b->on_sent = t ? completion_spec{} : message.completion;
  b->awaits = t ? t->id : 0;
  b->transmit = message.transmit;

  int ret = 0;
  if (gather) {
    b->gathered = memory;
    b->failed = 0;
  } else {
    b->length += memory.length();
    ret = load_payload(*b, start, memory, 0, memory.length());
  }
  if (ret == 0 && message.inject) ret = copies_.wait_for(*b);
  if (ret == 0) ret = submit_ordered(c, *b);
  if (ret) {
    if (t) free_transfer(*t);
    recycle(*b);
  }
  return ret;
}

// Puts local memory into a message: at once from the host, by the copy engine from a device.
int endpoint::load_payload(buffer& b, std::size_t at, const local_memory& memory,
                           std::size_t offset, std::size_t length) {
  b.failed = 0;
  if (!memory.on_device()) {
    memory.read(offset, b.bytes + at, length);
    return 0;
  }
  return copies_.start(b, at, memory, offset, length, copy::direction::device_to_host);
}

// Messages to a peer leave in the order they were sent: one that waits for its payload holds back
// the later ones.
int endpoint::submit_ordered(connection& c, buffer& b) {
  b.connection = nullptr;
  b.owner = nullptr;
  b.ready = b.copies == 0;
  if (b.ready && c.ordered.empty()) {
    const int ret = post_message(c, b);
    if (ret == 0) c.data.sent();
    return ret;
  }
  if (!base::make_room(ordered_waiting_)) return -FI_ENOMEM;
  try {
    c.ordered.push_back(&b);
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
  if (c.ordered.size() == 1) ordered_waiting_.push_back(c.id);
  c.data.sent();
  return 0;
}

void endpoint::flush_ordered(connection& c) {
  while (!c.ordered.empty() && c.ordered.front()->ready) {
    buffer& b = *c.ordered.front();
    if (b.failed) {
      // The device failed, not the peer: it never learns of this message.
      c.ordered.pop_front();
      c.data.returned(1);
      b.on_sent.end({.error = -b.failed});
      if (transfer* t = transfers_.find(b.awaits)) complete(*t, -b.failed);
      send_buffers_->release(b);
      continue;
    }
    if (post_message(c, b)) return;
    c.ordered.pop_front();
  }
}

// The core has the buffer from here on; credits are taken from the window only now, when they
// travel.
int endpoint::post_message(connection& c, buffer& b) {
  auto& head = *reinterpret_cast<wire::header*>(b.bytes);
  if (c.shm && !(head.flags & wire::via_core)) return shm_post(c, b);
  if (!core_has_room()) [[unlikely]]
    return -FI_EAGAIN;
  const credit_window data_before = c.data;
  const credit_window control_before = c.control;
  fill_header(c, head, head.what, head.flags);
  std::array<iovec, 1 + local_memory::max_segments> parts;
  std::array<void*, parts.size()> descriptors;
  fi_msg message{};
  message.msg_iov = parts.data();
  message.desc = descriptors.data();
  parts[0] = {b.bytes, b.length};
  descriptors[0] = b.descriptor();
  message.iov_count = 1;
  for (std::size_t i = 0; i < b.gathered.count(); ++i) {
    const local_segment& s = b.gathered[i];
    parts[message.iov_count] = {s.host(), s.length};
    descriptors[message.iov_count++] = s.core_descriptor();
  }
  message.context = b.context();
  const base::cancellation_deferred while_the_core_sends;
  const ssize_t ret =
      fi_sendmsg(c.ep.get(), &message, FI_COMPLETION | (b.transmit ? FI_TRANSMIT_COMPLETE : 0));
  if (ret) {
    c.data = data_before;
    c.control = control_before;
    return static_cast<int>(ret);
  }
  b.gathered.truncate(0);
  list_posted(c, b);
  return 0;
}

void endpoint::message_sent(buffer& b, int error) {
  const bool flushed = b.flushes;
  const auto awaits = b.awaits;
  b.on_sent.end({.error = error});
  recycle(b);
  if (flushed) [[unlikely]]
    fin_has_flushed(awaits, error);
}

void endpoint::recycle(buffer& b) {
  // A device may still be writing to it.
  if (b.copies) copies_.wait_for(b);
  b.on_sent = {};
  b.owner = nullptr;
  b.transmit = false;
  b.flushes = false;
  b.answers = false;
  b.gathered.truncate(0);
  send_buffers_->release(b);
}

}  // namespace gaudi::proto
