// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations: always by message, carried out by the target under its domain lock, which
// makes them atomic towards each other. Values of device memory come and go by its copy engine.
#include <rdma/fi_errno.h>

#include <cstring>

#include "proto/atomic_math.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

using atomic_math::call;

bool is_known(std::uint8_t group) noexcept {
  return group <= static_cast<std::uint8_t>(call::comparing);
}

/// What a region must allow to peers for an operation.
std::uint64_t access_for(fi_op op, call group) noexcept {
  if (op == FI_ATOMIC_READ) return FI_REMOTE_READ;
  return group == call::plain ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

/// Bytes of operands, and of values to compare with, that travel.
std::size_t payload_of(fi_op op, call group, std::size_t bytes) noexcept {
  if (op == FI_ATOMIC_READ) return 0;
  return group == call::comparing ? 2 * bytes : bytes;
}

}  // namespace

std::size_t endpoint::atomic_limit(std::size_t eager_size) noexcept {
  // Two values of each element travel, or are held while a device is asked.
  constexpr std::size_t fixed = sizeof(wire::atomic_fields);
  return eager_size > 2 * fixed ? (eager_size - fixed) / 2 : 0;
}

int endpoint::atomic(const atomic_access& access) {
  const auto c = data_connection(access.target);
  if (!c) return c.code();
  const int ret = request_atomic(**c, access);
  // As in send(): the application may only repeat the call.
  if (ret == -FI_EAGAIN) progress();
  return ret;
}

int endpoint::request_atomic(connection& c, const atomic_access& access) {
  const std::size_t bytes = access.count * atomic_math::size_of(access.type);
  const std::size_t payload = payload_of(access.op, access.group, bytes);
  if (sizeof(wire::atomic_fields) + payload > c.eager_limit) return -FI_EINVAL;
  buffer* b = send_buffers_->acquire();
  transfer* t = b ? new_transfer(&c, access.results, access.completion) : nullptr;
  if (!t) {
    if (b) send_buffers_->release(*b);
    return why_nothing_left();
  }
  const bool returns = access.group != call::plain;
  t->role = returns ? transfer_role::reader : transfer_role::source;
  t->strategy =
      returns ? transfer_strategy::none : transfer_strategy::copy_out;  // nothing to grant
  wire::atomic_fields fields{};
  fields.head = {wire::kind::atomic, 0, 0, 0, c.remote_id};
  fields.operation = t->id;
  fields.address = access.address;
  fields.key = access.key;
  fields.count = static_cast<std::uint32_t>(access.count);
  fields.type = static_cast<std::uint8_t>(access.type);
  fields.op = static_cast<std::uint8_t>(access.op);
  fields.group = static_cast<std::uint8_t>(access.group);
  std::memcpy(b->bytes, &fields, sizeof fields);
  b->length = sizeof fields + payload;
  b->on_sent = {};
  b->awaits = t->id;
  b->failed = 0;
  int ret = 0;
  if (payload) ret = load_payload(*b, sizeof fields, access.operands, 0, bytes);
  if (ret == 0 && access.group == call::comparing)
    ret = load_payload(*b, sizeof fields + bytes, access.compares, 0, bytes);
  if (ret == 0 && access.inject) ret = copies_.wait_for(*b);
  if (ret == 0) ret = submit_ordered(c, *b);
  if (ret == 0) return 0;
  free_transfer(*t);
  recycle(*b);
  return ret;
}

void endpoint::handle_atomic(connection& c, buffer& b, std::size_t length) {
  wire::atomic_fields fields{};
  if (length < sizeof fields) return malformed(c, "atomic operation");
  std::memcpy(&fields, b.bytes, sizeof fields);
  const auto type = static_cast<fi_datatype>(fields.type);
  const auto op = static_cast<fi_op>(fields.op);
  const auto group = static_cast<call>(fields.group);
  if (!is_known(fields.group) || !atomic_math::is_offered(type, op, group))
    return malformed(c, "atomic operation (unknown kind)");
  const std::size_t bytes = fields.count * atomic_math::size_of(type);
  if (bytes > atomic_limit(config_.eager_size) ||
      length != sizeof fields + payload_of(op, group, bytes))
    return malformed(c, "atomic operation (length)");
  const auto target = keys_.find(fields.key, fields.address, bytes, access_for(op, group));
  if (target && carry_out(c, fields, **target, b.bytes + sizeof fields)) return;
  if (!target) send_fin(c, fields.operation, FI_EACCES);
  consume(c);
}

// Whether the request's credit waits for the answer.
bool endpoint::carry_out(connection& c, const wire::atomic_fields& request,
                         const reg::region& target, const std::byte* payload) {
  const auto type = static_cast<fi_datatype>(request.type);
  const auto op = static_cast<fi_op>(request.op);
  const std::size_t bytes = request.count * atomic_math::size_of(type);
  const auto memory = local_memory::inside(target, request.address, bytes);
  const auto change = [&](void* values) {
    const bool compares = static_cast<call>(request.group) == call::comparing;
    atomic_math::apply(type, op, values, payload, compares ? payload + bytes : nullptr,
                       request.count);
  };
  buffer* reply = send_buffers_->acquire_beyond_limit();
  if (!reply) {
    send_fin(c, request.operation, FI_ENOMEM);
    return false;
  }
  reply->on_sent = {};
  reply->awaits = 0;
  std::byte* const before = reply->bytes + sizeof(wire::fin_fields);
  int ret = load_payload(*reply, sizeof(wire::fin_fields), memory, 0, bytes);
  if (ret == 0) ret = copies_.wait_for(*reply);
  if (ret == 0 && op != FI_ATOMIC_READ) {
    if (std::byte* values = memory.single_host()) {
      change(values);
    } else {
      std::memcpy(before + bytes, before, bytes);
      change(before + bytes);
      ret = copies_.start(*reply, sizeof(wire::fin_fields) + bytes, memory, 0, bytes,
                          copy::direction::host_to_device);
      if (ret == 0) ret = copies_.wait_for(*reply);
    }
  }
  count_atomic(target, static_cast<call>(request.group), op, ret);
  wire::fin_fields fields{};
  fields.operation = request.operation;
  if (ret || static_cast<call>(request.group) == call::plain) {
    recycle(*reply);
    send_fin(c, request.operation, -ret);
    return false;
  }
  fields.head = {wire::kind::read_reply, 0, 0, 0, c.remote_id};
  std::memcpy(reply->bytes, &fields, sizeof fields);
  reply->length = sizeof fields + bytes;
  queue_answer(c, *reply);
  return true;
}

// Counters of a target (FI_RMA_EVENT): a fetching operation counts as both.
void endpoint::count_atomic(const reg::region& target, call group, fi_op op, int ret) noexcept {
  const auto tell = [&](base::counter* of_endpoint, base::counter* of_memory) {
    if (of_endpoint) of_endpoint->count(-ret);
    if (of_memory) of_memory->count(-ret);
  };
  if (op != FI_ATOMIC_READ) tell(peers_wrote_, target.peers_wrote);
  if (group != call::plain) tell(peers_read_, target.peers_read);
}

}  // namespace gaudi::proto
