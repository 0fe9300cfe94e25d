// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/rma/atomics.hpp"

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstring>

#include "copy/cpu_copy.hpp"
#include "proto/transfer/operation_start.hpp"

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

std::size_t atomics::limit(std::size_t eager_size) noexcept {
  // Two values of each element travel, or are held while a device is asked.
  constexpr std::size_t fixed = sizeof(wire::atomic_fields);
  return eager_size > 2 * fixed ? (eager_size - fixed) / 2 : 0;
}

int atomics::request(connection& c, const atomic_access& access) {
  const std::size_t bytes = access.count * atomic_math::size_of(access.type);
  const std::size_t payload = payload_of(access.op, access.group, bytes);
  if (sizeof(wire::atomic_fields) + payload > c.terms.eager_limit) return -FI_EINVAL;
  const bool returns = access.group != call::plain;
  const operation_start start =
      start_operation(parts_.channel, parts_.table, c, access.results, access.completion,
                      returns ? transfer_role::reader : transfer_role::source);
  if (!start) return why_nothing_left(parts_.channel, parts_.table);
  buffer* const b = start.message;
  transfer* const t = start.operation;
  t->strategy =
      returns ? transfer_strategy::none : transfer_strategy::copy_out;  // nothing to grant
  wire::atomic_fields fields{};
  fields.head = {wire::kind::atomic, 0, 0, 0, c.terms.connection_id};
  fields.operation = t->id;
  fields.address = access.address;
  fields.key = access.key;
  fields.count = static_cast<std::uint32_t>(access.count);
  fields.type = static_cast<std::uint8_t>(access.type);
  fields.op = static_cast<std::uint8_t>(access.op);
  fields.group = static_cast<std::uint8_t>(access.group);
  std::memcpy(b->bytes, &fields, sizeof fields);
  b->begin_message(sizeof fields + payload, t->id);
  int ret = 0;
  if (payload) ret = parts_.channel.load_payload(*b, sizeof fields, access.operands, 0, bytes);
  if (ret == 0 && access.group == call::comparing)
    ret = parts_.channel.load_payload(*b, sizeof fields + bytes, access.compares, 0, bytes);
  if (ret == 0 && access.inject) ret = parts_.copies.wait_for(*b);
  if (ret == 0) ret = parts_.channel.submit(c, *b);
  if (ret == 0) return 0;
  abort_operation(parts_.channel, parts_.completion, start);
  return ret;
}

void atomics::handle(connection& c, buffer& b, std::size_t length) {
  wire::atomic_fields fields{};
  if (length < sizeof fields) return parts_.connections.malformed(c, "atomic operation");
  std::memcpy(&fields, b.bytes, sizeof fields);
  const auto type = static_cast<fi_datatype>(fields.type);
  const auto op = static_cast<fi_op>(fields.op);
  const auto group = static_cast<call>(fields.group);
  if (!is_known(fields.group) || !atomic_math::is_offered(type, op, group))
    return parts_.connections.malformed(c, "atomic operation (unknown kind)");
  const std::size_t bytes = fields.count * atomic_math::size_of(type);
  if (bytes > limit(eager_size_) || length != sizeof fields + payload_of(op, group, bytes))
    return parts_.connections.malformed(c, "atomic operation (length)");
  const auto target = parts_.keys.find(fields.key, fields.address, bytes, access_for(op, group));
  if (target && carry_out(c, fields, **target, b.bytes + sizeof fields)) return;
  if (!target) parts_.channel.send_fin(c, fields.operation, FI_EACCES);
  parts_.channel.consume(c);
}

// Whether the request's credit waits for the answer.
bool atomics::carry_out(connection& c, const wire::atomic_fields& request,
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
  buffer* reply = parts_.channel.acquire_beyond_limit();
  if (!reply) {
    parts_.channel.send_fin(c, request.operation, FI_ENOMEM);
    return false;
  }
  reply->begin_message(0);
  std::byte* const before = reply->bytes + sizeof(wire::fin_fields);
  int ret = parts_.channel.load_payload(*reply, sizeof(wire::fin_fields), memory, 0, bytes);
  if (ret == 0) ret = parts_.copies.wait_for(*reply);
  if (ret == 0 && op != FI_ATOMIC_READ) {
    if (std::byte* values = memory.single_host()) {
      change(values);
    } else {
      copy::by_cpu(before + bytes, before, bytes);
      change(before + bytes);
      ret = parts_.copies.start(*reply, sizeof(wire::fin_fields) + bytes, memory, 0, bytes,
                                copy::direction::host_to_device);
      if (ret == 0) ret = parts_.copies.wait_for(*reply);
    }
  }
  count_atomic(target, static_cast<call>(request.group), op, ret);
  wire::fin_fields fields{};
  fields.operation = request.operation;
  if (ret || static_cast<call>(request.group) == call::plain) {
    parts_.channel.recycle(*reply);
    parts_.channel.send_fin(c, request.operation, -ret);
    return false;
  }
  fields.head = {wire::kind::read_reply, 0, 0, 0, c.terms.connection_id};
  std::memcpy(reply->bytes, &fields, sizeof fields);
  reply->length = sizeof fields + bytes;
  parts_.channel.queue_answer(c, *reply);
  return true;
}

// Counters of a target (FI_RMA_EVENT): a fetching operation counts as both.
void atomics::count_atomic(const reg::region& target, call group, fi_op op, int ret) noexcept {
  const auto tell = [&](base::counter* of_endpoint, base::counter* of_memory) {
    if (of_endpoint) of_endpoint->count(-ret);
    if (of_memory) of_memory->count(-ret);
  };
  if (op != FI_ATOMIC_READ) tell(counters_.writes, target.peers_wrote);
  if (group != call::plain) tell(counters_.reads, target.peers_read);
}

}  // namespace gaudi::proto
