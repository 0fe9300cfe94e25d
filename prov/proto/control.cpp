// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages between endpoints that no application asked for. They have credits of their own and are
// consumed as they arrive, so they always get through, however many unexpected messages a receiver
// keeps.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {

void endpoint::queue_control(connection& c, const std::byte* bytes, std::size_t length) {
  if (c.state == connection_state::failed) return;
  if (c.control_queue.empty() && c.control_buffers.empty() && try_control(c, bytes, length)) return;
  try {
    c.control_queue.emplace_back(bytes, bytes + length);
    let_control_wait(c);
  } catch (const std::bad_alloc&) {
    connections_->fail_soon(c, FI_ENOMEM);
  }
}

// Throws std::bad_alloc.
void endpoint::let_control_wait(connection& c) {
  if (c.control_waits) return;
  control_waiting_.push_back(c.id);
  c.control_waits = true;
}

// For payloads: the buffer leaves when it is loaded and there is a credit.
void endpoint::queue_control_buffer(connection& c, buffer& b) {
  b.owner = nullptr;
  b.connection = nullptr;
  b.ready = b.copies == 0;
  c.control_buffers.push_back(&b);
  let_control_wait(c);
  flush_control(c);
}

// To a request. The credit of that goes back with the answer, so that a peer has no more requests
// here than its window, however slowly it takes what it asked for: answers need no other limit.
void endpoint::queue_answer(connection& c, buffer& b) {
  b.answers = true;
  queue_control_buffer(c, b);
}

bool endpoint::try_control(connection& c, const std::byte* bytes, std::size_t length) {
  if (!c.usable() || !c.control.can_send()) return false;
  const auto what = reinterpret_cast<const wire::header*>(bytes)->what;
  const auto flags = reinterpret_cast<const wire::header*>(bytes)->flags;
  if (c.shm && !(flags & wire::via_core)) return shm_control(c, bytes, length);
  if (length > core_inject_) {
    buffer* b = send_buffers_->acquire();
    if (!b) return false;
    std::memcpy(b->bytes, bytes, length);
    b->length = length;
    b->on_sent = {};
    b->awaits = 0;
    b->owner = nullptr;
    if (post_message(c, *b)) {
      send_buffers_->release(*b);
      return false;
    }
    c.control.sent();
    return true;
  }
  alignas(8) std::byte packet[256];
  std::memcpy(packet, bytes, length);
  const credit_window data_before = c.data;
  const credit_window control_before = c.control;
  fill_header(c, *reinterpret_cast<wire::header*>(packet), what, flags);
  const base::cancellation_deferred while_the_core_sends;
  if (fi_inject(c.ep.get(), packet, length, 0)) {
    c.data = data_before;
    c.control = control_before;
    return false;
  }
  c.control.sent();
  return true;
}

void endpoint::flush_control(connection& c) {
  if (c.returns_due()) return_credits(c);
  while (!c.control_queue.empty()) {
    const auto& bytes = c.control_queue.front();
    if (!try_control(c, bytes.data(), bytes.size())) return;
    c.control_queue.pop_front();
  }
  while (!c.control_buffers.empty() && c.usable() && c.control.can_send()) {
    buffer& b = *c.control_buffers.front();
    if (!b.ready) return;
    const bool answers = std::exchange(b.answers, false);
    if (b.failed) {
      // The peer waits for this payload: tell it that there is none.
      wire::fin_fields failed{};
      std::memcpy(&failed, b.bytes, sizeof failed);
      failed.status = -b.failed;
      send_buffers_->release(b);
      c.control_buffers.pop_front();
      if (answers) consumed_data(c);
      send_control(c, wire::kind::fin, 0, failed, sizeof failed);
      continue;
    }
    if (post_message(c, b)) {
      b.answers = answers;
      return;
    }
    c.control.sent();
    c.control_buffers.pop_front();
    if (answers) consumed_data(c);
  }
}

void endpoint::send_fin(connection& c, std::uint64_t operation, int status, std::uint8_t flags) {
  wire::fin_fields fields{};
  fields.operation = operation;
  fields.status = status;
  send_control(c, wire::kind::fin, flags, fields, sizeof fields);
}

int endpoint::send_header(connection& c, wire::kind what) {
  return send_uncounted(c, {what, 0, 0, 0, 0}, sizeof(wire::header));
}

// Of a peer in shared memory: a packet that only the core can bring.
int endpoint::send_header_by_core(connection& c, wire::kind what) {
  const std::uint8_t flags = c.shm ? wire::via_core : 0;
  return uncounted_by_core(c, {what, flags, 0, 0, 0}, sizeof(wire::header));
}

// A packet that takes no credit, of which `packet` is the beginning; its header is completed here.
int endpoint::send_uncounted(connection& c, const wire::header& packet, std::size_t length) {
  return c.shm ? shm_uncounted(c, packet, length) : uncounted_by_core(c, packet, length);
}

// Where the core may not inline, a buffer carries it.
int endpoint::uncounted_by_core(connection& c, const wire::header& packet, std::size_t length) {
  if (length > core_inject_) {
    buffer* b = send_buffers_->acquire();
    if (!b) return -FI_EAGAIN;
    std::memcpy(b->bytes, &packet, length);
    b->length = length;
    b->on_sent = {};
    b->awaits = 0;
    b->owner = nullptr;
    const int ret = post_message(c, *b);
    if (ret) send_buffers_->release(*b);
    return ret;
  }
  alignas(8) std::byte bytes[sizeof(wire::credit_fields)];
  std::memcpy(bytes, &packet, length);
  const credit_window data_before = c.data;
  const credit_window control_before = c.control;
  fill_header(c, *reinterpret_cast<wire::header*>(bytes), packet.what, packet.flags);
  const base::cancellation_deferred while_the_core_sends;
  const auto ret = static_cast<int>(fi_inject(c.ep.get(), bytes, length, 0));
  if (ret) {
    c.data = data_before;
    c.control = control_before;
  }
  return ret;
}

// A peer that sends more than its window lets it gets what another one does not use.
void endpoint::recall_credits() {
  connection* const rich =
      connections_->credits().recall([this](auto&& visit) { connections_->for_each(visit); });
  // Where there is no room it is asked again, by whoever wants more next.
  if (rich && rich->usable()) static_cast<void>(send_header(*rich, wire::kind::credit_recall));
}

// The peer has better use for what is not used here. Where there is no room it asks again.
void endpoint::release_credits(connection& c) {
  const credit_window before = c.data;
  wire::credit_fields fields{};
  fields.head.what = wire::kind::credit_release;
  fields.count = c.data.release_beyond(credit_pool::certain);
  if (fields.count != 0 && send_uncounted(c, fields.head, sizeof fields)) c.data = before;
}

// Once returns_due(): credits usually travel with other messages, but a peer that only sends needs
// a message for them.
void endpoint::return_credits(connection& c) {
  if (send_header(c, wire::kind::credit)) let_control_wait(c);
}

}  // namespace gaudi::proto
