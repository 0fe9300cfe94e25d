// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/rma/rma_initiator.hpp"

#include <rdma/fi_errno.h>

#include <cstring>

#include "proto/operation/rts.hpp"
#include "proto/transfer/implicit_registration.hpp"
#include "proto/transfer/operation_start.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {
namespace {

// One-sided operations that wait for room in the core or for a chunk: what an application posts
// beyond these it has to post again, so that what is outstanding takes a bounded amount of memory.
constexpr std::size_t max_stalled = 1024;
constexpr std::size_t injected_per_slab = 64;
constexpr std::size_t injected_limit = 256;

// What a request names: which operation of ours, on which memory of the peer's.
wire::rma_fields fields_of(const transfer& t, const rma_access& access) noexcept {
  wire::rma_fields fields{};
  fields.operation = t.id;
  fields.address = access.address;
  fields.key = access.key;
  fields.length = t.length;
  return fields;
}

}  // namespace

rma_initiator::rma_initiator(core::inner_domain& core, const endpoint_settings& config,
                             parts collaborators)
    : config_(config),
      reads_directly_(core.reads_safely()),
      parts_(collaborators),
      injected_(core, max_inject, injected_per_slab, injected_limit) {}

// By message a long operation takes several, and a later one could come between them.
void rma_initiator::keep_order(transfer& t) noexcept {
  if (!config_.rma_order || (!t.connection->shm && reads_directly_)) return;
  t.rma.blocks_later = true;
  ++t.connection->rma_order.pending;
}

// What takes more than one operation of the core, or more than the core; and what it has no room
// for, which waits.
[[gnu::noinline]] int rma_initiator::access_by_transfer(connection& c, const local_memory& memory,
                                                        const rma_access& access,
                                                        transfer_strategy way) {
  if (!parts_.transport.has_room() || parts_.table.stalled().size() >= max_stalled)
    return -FI_EAGAIN;
  if (access.inject) return inject_write(c, memory, access);
  transfer* t = parts_.table.create(&c, memory, access.completion);
  if (!t)
    return parts_.direct.count() != 0 ? -FI_EAGAIN : why_nothing_left(parts_.channel, parts_.table);
  t->strategy = way;
  t->remote.push_back({access.address, access.key, memory.length()});
  t->rma.delivery = access.delivery;
  register_implicitly(*t, config_, 0);
  if (access.has_data) t->rma.event_data = access.data;
  if (t->length == 0) {
    parts_.completion.complete(*t, 0);
  } else {
    parts_.connections.on_behalf_of(&c, [&] { parts_.mover.progress(*t); });
  }
  return 0;
}

// The buffer is the caller's again on return, so the data leaves from one of ours.
int rma_initiator::inject_write(connection& c, const local_memory& memory,
                                const rma_access& access) {
  const auto copied = copy_injected(c, memory);
  if (!copied) return copied.code();
  buffer* const b = *copied;
  transfer* t = parts_.table.create(&c, memory, access.completion);
  if (!t) {
    release_staging(*b);
    return injected_.in_use() != 0 ? -FI_EAGAIN : why_nothing_left(parts_.channel, parts_.table);
  }
  t->strategy = transfer_strategy::push;
  t->remote.push_back({access.address, access.key, memory.length()});
  if (access.has_data) t->rma.event_data = access.data;
  if (t->length == 0) {
    release_staging(*b);
    parts_.completion.complete(*t, 0);
    return 0;
  }
  b->owner = t;
  const int ret = parts_.mover.post_rma(*t, *b, b->bytes, b->length, b->descriptor(), 0, 0);
  if (ret) {
    release_staging(*b);
    parts_.completion.free(*t);
    return ret;
  }
  t->moved.issued = t->length;
  ++t->moved.in_flight;
  return 0;
}

int rma_initiator::begin_again(connection& c, const direct_op& op) {
  if (!c.usable() || !c.data.can_send()) return -FI_EAGAIN;
  rma_access access;
  access.address = op.operation.remote.address;
  access.key = op.operation.remote.key;
  access.data = op.data;
  access.has_data = op.has_data;
  access.inject = op.operation.bytes == op.kept.data();
  access.completion = op.completion;
  return op.operation.read ? read_by_message(c, op.memory(), access)
                           : write_by_message(c, op.memory(), access);
}

base::result<buffer*> rma_initiator::copy_injected(connection& c, const local_memory& memory) {
  buffer* const b = injected_.acquire(c.remote->injected, parts_.connections.count());
  if (!b) {
    const bool comes_back = injected_.in_use() != 0;
    return base::error{comes_back ? -FI_EAGAIN : why_nothing_left(parts_.channel, parts_.table)};
  }
  b->owner = nullptr;
  b->offset = 0;
  b->length = memory.length();
  b->copies = 0;
  b->failed = 0;
  int ret = parts_.copies.start(*b, 0, memory, 0, memory.length(), copy::direction::device_to_host);
  if (ret == 0 && b->copies) ret = parts_.copies.wait_for(*b);
  if (ret == 0) return b;
  release_staging(*b);
  return base::error{ret};
}

local_memory rma_initiator::memory_in(const buffer& copied) noexcept {
  return local_memory::of_host(copied.bytes, copied.length);
}

int rma_initiator::write_by_message(connection& c, const local_memory& memory,
                                    const rma_access& access) {
  const operation_start start = start_operation(parts_.channel, parts_.table, c, memory,
                                                access.completion, transfer_role::source);
  if (!start) return why_nothing_left(parts_.channel, parts_.table);
  buffer* const b = start.message;
  transfer* const t = start.operation;
  wire::rma_fields fields = fields_of(*t, access);
  fields.data = access.data;
  std::uint8_t flags = access.has_data ? wire::cq_data : 0;
  int ret = 0;
  const bool short_enough = sizeof fields + memory.length() <= c.terms.eager_limit &&
                            (access.inject || !parts_.rendezvous.is_shorter(c, memory));
  if (short_enough) {
    fields.head = {wire::kind::write, flags, 0, 0, c.terms.connection_id};
    b->begin_message(sizeof fields + memory.length(), t->id);
    ret = parts_.channel.load_payload(*b, sizeof fields, memory, 0, memory.length());
    if (ret == 0 && access.inject) ret = parts_.copies.wait_for(*b);
  } else {
    wire::rts_fields rts{};
    ret = parts_.rendezvous.offer(*t, rts, flags);
    fields.head = {wire::kind::write_rts, flags, 0, 0, c.terms.connection_id};
    const std::size_t size = put_rts(b->bytes + sizeof fields, rts);
    b->begin_message(sizeof fields + size, t->id);
  }
  if (ret == 0) {
    std::memcpy(b->bytes, &fields, sizeof fields);
    ret = parts_.channel.submit(c, *b);
  }
  if (ret) {
    abort_operation(parts_.channel, parts_.completion, start);
  } else if (short_enough) {
    parts_.channel.count_eager(c, memory.length());
  } else {
    keep_order(*t);
  }
  return ret;
}

int rma_initiator::read_by_message(connection& c, const local_memory& memory,
                                   const rma_access& access) {
  const operation_start start = start_operation(parts_.channel, parts_.table, c, memory,
                                                access.completion, transfer_role::reader);
  if (!start) return why_nothing_left(parts_.channel, parts_.table);
  buffer* const b = start.message;
  transfer* const t = start.operation;
  wire::rma_fields fields = fields_of(*t, access);
  fields.head = {wire::kind::read, 0, 0, 0, c.terms.connection_id};
  std::memcpy(b->bytes, &fields, sizeof fields);
  b->begin_message(sizeof fields, t->id);
  if (const int ret = parts_.channel.submit(c, *b)) {
    abort_operation(parts_.channel, parts_.completion, start);
    return ret;
  }
  if (sizeof(wire::fin_fields) + memory.length() > c.terms.eager_limit) keep_order(*t);
  return 0;
}

}  // namespace gaudi::proto
