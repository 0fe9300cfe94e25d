// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets between endpoints that no application asked for, and the credits that they bring.
#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "proto/channel/packet_channel.hpp"

namespace gaudi::proto {

void packet_channel::queue_control(connection& c, const std::byte* bytes, std::size_t length) {
  if (c.state == connection_state::failed) return;
  if (!c.outbox.has_control() && try_control(c, bytes, length)) return;
  try {
    c.outbox.control.emplace_back(bytes, bytes + length);
    let_control_wait(c);
  } catch (const std::bad_alloc&) {
    connections_.fail_soon(c, FI_ENOMEM);
  }
}

// Throws std::bad_alloc.
void packet_channel::let_control_wait(connection& c) {
  if (c.outbox.control_waits) return;
  control_waiting_.push_back(c.id);
  c.outbox.control_waits = true;
}

// The buffer leaves when it is loaded and there is a credit.
void packet_channel::queue_answer(connection& c, buffer& b) {
  b.answers = true;
  b.owner = nullptr;
  b.connection = nullptr;
  b.ready = b.copies == 0;
  c.outbox.control_buffers.push_back(b);
  let_control_wait(c);
  flush_control(c);
}

bool packet_channel::try_control(connection& c, const std::byte* bytes, std::size_t length) {
  if (!c.usable() || !c.control.can_send()) return false;
  const auto flags = reinterpret_cast<const wire::header*>(bytes)->flags;
  const bool left = c.shm && !(flags & wire::via_core) ? shm_.send(c, bytes, length)
                                                       : try_control_by_core(c, bytes, length);
  if (left) c.control.sent();
  return left;
}

bool packet_channel::try_control_by_core(connection& c, const std::byte* bytes,
                                         std::size_t length) {
  if (length > core_.limits().max_inject) {
    buffer* b = acquire();
    if (!b) return false;
    std::memcpy(b->bytes, bytes, length);
    b->begin_message(length);
    if (core_.send(c, *b) == 0) return true;
    release(*b);
    return false;
  }
  alignas(8) std::byte packet[256];
  std::memcpy(packet, bytes, length);
  const base::cancellation_deferred while_the_core_sends;
  return core_.inject(c, packet, length) == 0;
}

void packet_channel::flush_control(connection& c) {
  if (c.returns_due()) return_credits(c);
  while (!c.outbox.control.empty()) {
    const auto& bytes = c.outbox.control.front();
    if (!try_control(c, bytes.data(), bytes.size())) return;
    c.outbox.control.pop_front();
  }
  while (!c.outbox.control_buffers.empty() && c.usable() && c.control.can_send() &&
         flush_answer(c)) {
  }
}

// The oldest one. False: it has to wait.
bool packet_channel::flush_answer(connection& c) {
  buffer& b = static_cast<buffer&>(c.outbox.control_buffers.front());
  if (!b.ready) return false;
  c.outbox.control_buffers.pop_front();
  const bool answers = std::exchange(b.answers, false);
  if (b.failed) {
    // The peer waits for this payload: tell it that there is none.
    wire::fin_fields failed{};
    std::memcpy(&failed, b.bytes, sizeof failed);
    failed.status = -b.failed;
    release(b);
    if (answers) consumed_data(c);
    send_control(c, wire::kind::fin, 0, failed, sizeof failed);
    return true;
  }
  if (post(c, b)) {
    b.answers = answers;
    c.outbox.control_buffers.push_front(b);
    return false;
  }
  c.control.sent();
  if (answers) consumed_data(c);
  return true;
}

void packet_channel::send_fin(connection& c, std::uint64_t operation, int status,
                              std::uint8_t flags) {
  wire::fin_fields fields{};
  fields.operation = operation;
  fields.status = status;
  send_control(c, wire::kind::fin, flags, fields, sizeof fields);
}

void packet_channel::send_event(connection& c, std::uint64_t data, std::size_t length,
                                std::uint64_t address) {
  wire::event_fields fields{};
  fields.data = data;
  fields.length = length;
  fields.address = address;
  send_control(c, wire::kind::event, wire::cq_data, fields, sizeof fields);
}

int packet_channel::send_header(connection& c, wire::kind what) {
  return send_uncounted(c, {what, 0, 0, 0, 0}, sizeof(wire::header));
}

// A packet that takes no credit, of which `packet` is the beginning.
int packet_channel::send_uncounted(connection& c, const wire::header& packet, std::size_t length) {
  if (!c.shm) return core_.send_uncounted(c, packet, length);
  return shm_.send(c, reinterpret_cast<const std::byte*>(&packet), length) ? 0 : -FI_EAGAIN;
}

void packet_channel::consumed_data(connection& c) {
  consume(c);
  if (c.returns_due()) return_credits(c);
}

// A peer that sends more than its window lets it gets what another one does not use.
void packet_channel::recall_credits() {
  connection* const rich =
      connections_.credits().recall([this](auto&& visit) { connections_.for_each(visit); });
  // Where there is no room it is asked again, by whoever wants more next.
  if (rich && rich->usable()) static_cast<void>(send_header(*rich, wire::kind::credit_recall));
}

void packet_channel::release_credits(connection& c) {
  const credit_window before = c.data;
  wire::credit_fields fields{};
  fields.head.what = wire::kind::credit_release;
  fields.count = c.data.release_beyond(credit_pool::certain);
  if (fields.count != 0 && send_uncounted(c, fields.head, sizeof fields)) c.data = before;
}

void packet_channel::return_credits(connection& c) {
  if (send_header(c, wire::kind::credit)) let_control_wait(c);
}

}  // namespace gaudi::proto
