// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages in their order, and what waits.
#include "proto/channel/packet_channel.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/make_room.hpp"

namespace gaudi::proto {
namespace {

/// Of an outbox, which has nothing but messages.
buffer& first_of(posted_op_list& messages) noexcept {
  return static_cast<buffer&>(messages.front());
}

}  // namespace

void packet_channel::reserve(std::size_t connections) {
  for (auto* list : {&control_waiting_, &ordered_waiting_}) base::reserve_ahead(*list, connections);
}

int packet_channel::load_payload(buffer& b, std::size_t at, const local_memory& memory,
                                 std::size_t offset, std::size_t length) {
  b.failed = 0;
  if (!memory.on_device()) {
    memory.read(offset, b.bytes + at, length);
    return 0;
  }
  return copies_.start(b, at, memory, offset, length, copy::direction::device_to_host);
}

int packet_channel::submit(connection& c, buffer& b) {
  b.connection = nullptr;
  b.owner = nullptr;
  b.ready = b.copies == 0;
  if (b.ready && c.outbox.ordered.empty()) {
    const int ret = post(c, b);
    if (ret == 0) c.data.sent();
    return ret;
  }
  if (!base::make_room(ordered_waiting_)) return -FI_ENOMEM;
  if (c.outbox.ordered.empty()) ordered_waiting_.push_back(c.id);
  c.outbox.ordered.push_back(b);
  c.data.sent();
  return 0;
}

void packet_channel::flush_ordered(connection& c) {
  while (!c.outbox.ordered.empty() && first_of(c.outbox.ordered).ready) {
    buffer& b = first_of(c.outbox.ordered);
    c.outbox.ordered.pop_front();
    if (const int lost = b.gathered.loss()) b.failed = -lost;
    if (b.failed) {
      // The device failed, not the peer: it never learns of this message.
      c.data.returned(1);
      b.on_sent.end({.error = -b.failed});
      observer_.message_failed(b.awaits, -b.failed);
      recycle(b);
      continue;
    }
    if (post(c, b)) return c.outbox.ordered.push_front(b);
  }
}

int packet_channel::post(connection& c, buffer& b) {
  const auto flags = reinterpret_cast<const wire::header*>(b.bytes)->flags;
  if (!c.shm || (flags & wire::via_core)) return core_.send(c, b);
  if (!shm_.send(c, b.bytes, b.length)) return -FI_EAGAIN;
  sent(b, 0);
  return 0;
}

void packet_channel::sent(buffer& b, int error) {
  b.on_sent.end({.error = error});
  recycle(b);
}

void packet_channel::recycle(buffer& b) {
  // A device may still be writing to it.
  if (b.copies) copies_.wait_for(b);
  b.on_sent = {};
  b.owner = nullptr;
  b.transmit = false;
  b.flushes = false;
  b.answers = false;
  b.gathered.truncate(0);
  release(b);
}

void packet_channel::connection_down(connection& c, int error) {
  for (auto* queue : {&c.outbox.ordered, &c.outbox.control_buffers}) {
    while (!queue->empty()) {
      buffer& b = first_of(*queue);
      queue->pop_front();
      if (b.copies) copies_.wait_for(b);
      b.on_sent.end({.error = error});
      recycle(b);
    }
  }
  c.outbox.control.clear();
}

void packet_channel::flush() {
  std::erase_if(ordered_waiting_, [this](std::uint32_t id) {
    connection* c = connections_.find(id);
    if (c) connections_.on_behalf_of(c, [&] { flush_ordered(*c); });
    return !c || c->outbox.ordered.empty();
  });
  std::erase_if(control_waiting_, [this](std::uint32_t id) {
    connection* c = connections_.find(id);
    if (!c) return true;
    connections_.on_behalf_of(c, [&] { flush_control(*c); });
    if (c->outbox.has_control() || c->returns_due()) return false;
    c->outbox.control_waits = false;
    return true;
  });
}

bool packet_channel::waits_unnoticed() const noexcept {
  const auto must = [this](std::uint32_t id) { return must_flush(id); };
  return std::any_of(control_waiting_.begin(), control_waiting_.end(), must) ||
         std::any_of(ordered_waiting_.begin(), ordered_waiting_.end(), must);
}

// A peer that is stopped keeps things waiting for as long as it likes, and no thread is to be busy
// meanwhile: where the core has work for that peer, the end of it, which is told, comes before any
// room; and credits come by message. Nobody tells of room in shared memory either.
bool packet_channel::must_flush(std::uint32_t id) const noexcept {
  const connection* const c = connections_.find(id);
  if (!c) return true;
  if (!c->usable()) return false;
  const bool has_control = c->outbox.has_control();
  const bool has_something =
      !c->outbox.ordered.empty() || (has_control && c->control.can_send()) || c->returns_due();
  return has_something && (c->shm || c->at_core.posted.empty());
}

}  // namespace gaudi::proto
