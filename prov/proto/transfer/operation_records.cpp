// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/operation_records.hpp"

#include <rdma/fabric.h>

#include <cstring>
#include <utility>

#include "proto/connection/connection.hpp"

namespace gaudi::proto {
namespace {

namespace outstanding = base::outstanding;
using outstanding::operation_kind;
using outstanding::path_kind;
using outstanding::record;
using outstanding::wait_reason;

operation_kind kind_of(const transfer& t) noexcept {
  if (t.for_peer_hook.is_linked()) return operation_kind::served;
  const std::uint64_t flags = t.outcome.completion.flags;
  if (flags & FI_ATOMIC) return operation_kind::atomic;
  if (flags & FI_RECV) return operation_kind::receive;
  if (flags & FI_SEND) return operation_kind::send;
  if (flags & FI_READ) return operation_kind::read;
  return flags & FI_WRITE ? operation_kind::write : operation_kind::other;
}

std::int32_t index_of(const device::device* owner) noexcept {
  return owner ? static_cast<std::int32_t>(owner->attributes().index) : -1;
}

std::int32_t device_of(const local_memory& memory) noexcept {
  for (std::size_t i = 0; i < memory.count(); ++i)
    if (memory[i].owner) return index_of(memory[i].owner);
  return -1;
}

// Nothing was moved yet: the next word is the peer's.
wait_reason wait_for_answer(const transfer& t) noexcept {
  if (t.role == transfer_role::sink) return wait_reason::peer_data;
  return kind_of(t) == operation_kind::send ? wait_reason::matching_receive
                                            : wait_reason::peer_answer;
}

wait_reason wait_of_mover(const transfer& t) noexcept {
  if (t.moved.in_flight != 0) return wait_reason::network;
  if (t.slots.in_use && t.moved.issued < t.length && t.slots.free.empty())
    return wait_reason::peer_slots;
  if (t.moved.issued == t.length) return wait_reason::peer_end;
  return t.moved.starved ? wait_reason::staging : wait_reason::room;
}

// All that a record of an operation has: another may have had it before.
void put_operation(record& r, const transfer& t, std::uint32_t endpoint,
                   base::clock::time_point now, bool copying) noexcept {
  r.type = static_cast<std::uint8_t>(kind_of(t));
  r.path = path_of(t);
  r.wait = wait_of(t, copying);
  r.endpoint = endpoint;
  r.flags = 0;
  if (t.memory.loss() != 0) r.flags = outstanding::device_lost;
  r.id = t.id;
  r.device = device_of(t.memory);
  if (r.since == 0) r.since = nanoseconds(now);
  r.total = t.length;
  r.done = t.moved.finished;
  r.counts[outstanding::path_reason_code] = static_cast<std::uint64_t>(t.reach.why);
  if (t.connection) {
    put_peer(r, *t.connection);
  } else {
    r.address = {};
    r.instance = r.seen = 0;
  }
}

// It is with the core, or will be again.
void put_operation(record& r, const direct_op& op, std::uint32_t endpoint,
                   base::clock::time_point now) noexcept {
  r.type =
      static_cast<std::uint8_t>(op.operation.read ? operation_kind::read : operation_kind::write);
  r.path = path_kind::direct;
  r.wait = wait_reason::network;
  r.endpoint = endpoint;
  r.flags = 0;
  if (op.owner && op.owner->lost() != 0) r.flags = outstanding::device_lost;
  r.id = static_cast<std::uint32_t>(op.name());
  r.device = index_of(op.owner);
  if (r.since == 0) r.since = nanoseconds(now);
  r.total = op.operation.length;
  r.done = 0;
  r.counts[outstanding::path_reason_code] = 0;
  put_peer(r, *op.on);
}

}  // namespace

path_kind path_of(const transfer& t) noexcept {
  if (t.pull.via_copy_engine) return path_kind::engine;
  if (t.pull.via_nic) return path_kind::dmabuf;
  if (t.slots.are_shared) return path_kind::shared;
  if (t.slots.in_use || t.strategy == transfer_strategy::recv_staged) return path_kind::staged;
  if (t.strategy == transfer_strategy::copy_out) return path_kind::packet;
  return t.strategy == transfer_strategy::none ? path_kind::undecided : path_kind::direct;
}

wait_reason wait_of(const transfer& t, bool copying) noexcept {
  if (copying) return wait_reason::device_copy;
  if (t.flush.under_way || (t.ending.begun && t.moved.in_flight != 0)) return wait_reason::network;
  if (t.ending.begun) return wait_reason::peer_end;
  switch (t.strategy) {
    case transfer_strategy::none:
      return wait_for_answer(t);
    case transfer_strategy::copy_out:
      return t.role == transfer_role::source ? wait_for_answer(t) : wait_reason::device_copy;
    case transfer_strategy::recv_staged:
      return t.slots.granted.held() == 0 ? wait_reason::staging : wait_reason::peer_data;
    case transfer_strategy::pull:
    case transfer_strategy::push:
      return wait_of_mover(t);
  }
  return wait_reason::nothing;
}

void put_peer(record& r, const connection& c) noexcept {
  static_assert(sizeof(net_address) == sizeof r.address);
  std::memcpy(r.address.data(), c.remote->name.raw(), sizeof r.address);
  r.instance = c.terms.instance;
  r.seen = nanoseconds(c.silence.heard_at);
}

void operation_records::open(const base::clock& clock, std::uint32_t endpoint) noexcept {
  clock_ = clock;
  endpoint_ = endpoint;
  is_open_ = true;
}

void operation_records::keep(transfer& t) noexcept {
  if (spare_.size() == spare_.capacity()) return;
  t.record.clear();
  spare_.push_back(std::move(t.record));
}

// False: none is left.
bool operation_records::provide(outstanding::record_owner& record) noexcept {
  if (record) return true;
  if (spare_.empty()) {
    record = outstanding::record_owner(outstanding::record_kind::operation);
  } else {
    record = std::move(spare_.back());
    spare_.pop_back();
  }
  return static_cast<bool>(record);
}

void operation_records::show(transfer& t, base::clock::time_point now, bool copying) noexcept {
  if (provide(t.record))
    t.record.change([&](record& r) { put_operation(r, t, endpoint_, now, copying); });
}

void operation_records::show(direct_op& op, base::clock::time_point now) noexcept {
  if (provide(op.record))
    op.record.change([&](record& r) { put_operation(r, op, endpoint_, now); });
}

}  // namespace gaudi::proto
