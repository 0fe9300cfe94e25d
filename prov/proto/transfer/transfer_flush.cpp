// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/transfer_flush.hpp"

#include <rdma/fi_errno.h>

#include <cstring>

#include "base/cancellation_deferred.hpp"

namespace gaudi::proto {

int transfer_flush::flush_own(device::device& on) {
  if (!flush_ || is_flushed(on, 0)) return 0;
  const base::cancellation_deferred until_it_is_flushed;
  const auto done = flush_->flush(on);
  if (!done) return -done.code();
  last_ = {.on = &on, .looks = core_.looks()};
  return 0;
}

// A NIC's read follows its own writes and nobody else's.
int transfer_flush::flush_local(const transfer& t) {
  if (!flush_) return 0;
  const base::cancellation_deferred until_it_is_flushed;
  int ret = flush_by(*flush_, t);
  for (const rail_interface& one : rails_.others) {
    if (ret != 0 || t.flush.by_other_nics == 0) break;
    if (one.nic && (t.flush.by_other_nics >> one.nic->number() & 1) != 0)
      ret = flush_by(one.nic->flush(), t);
  }
  return ret;
}

int transfer_flush::flush_by(reg::write_flush& flush, const transfer& t) {
  const device::device* last = nullptr;
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    device::device* const on = t.memory[i].owner;
    if (!on || on == last) continue;
    if (const auto done = flush.flush(*on); !done) return -done.code();
    last = on;
  }
  return 0;
}

// Where the NIC gathers a byte of the device into the sink's `fin`, it reads from there behind its
// own writes, which is what a flush is (reg::write_flush), and has done so when the message has
// left: one way of the wire less than a read first and the message then. Not where that could make
// a receive wait for more than the NICs: credits come back from a peer that progresses.
bool transfer_flush::can_flush_by_fin(const transfer& t) const noexcept {
  if (!t.ending.tell_peer || t.outcome.status != 0 || !flush_) return false;
  if (t.flush.by_other_nics != 0) return false;
  const connection& c = *t.connection;
  // Should it be lost, another NIC may have to send the message, and flushes nothing by that.
  if (!c.usable() || c.shm || c.session.may_move || !c.control.can_send()) return false;
  if (c.outbox.has_control()) return false;
  if (t.memory.count() != 1 || !t.memory[0].owner || !t.memory[0].core_descriptor()) return false;
  if (!flush_->reads_back(*t.memory[0].owner)) return false;
  return sizeof(wire::fin_fields) >= core_.limits().max_inlined &&
         core_.core().info().tx_attr->iov_limit > 1;
}

bool transfer_flush::flush_by_fin(transfer& t) {
  buffer* const b = can_flush_by_fin(t) ? channel_.acquire() : nullptr;
  if (!b) return false;
  const wire::fin_fields fields{
      .head = {wire::kind::fin, 0, 0, 0, t.connection->terms.connection_id},
      .operation = t.peer_operation,
      .status = 0,
      .reserved = 0};
  std::memcpy(b->bytes, &fields, sizeof fields);
  b->begin_message(sizeof fields, t.id);
  b->gathered = t.memory;
  b->gathered.truncate(t.length);
  b->gathered.skip(t.length - 1);
  b->flushes = true;
  if (core_.send(*t.connection, *b)) {
    channel_.recycle(*b);
    return false;
  }
  t.connection->control.sent();
  t.ending.tell_peer = false;
  t.flush.under_way = true;
  ++t.moved.in_flight;
  return true;
}

// If the message failed, so did the connection, or is about to: the data is here all the same.
void transfer_flush::fin_left(transfer& t, int error) noexcept {
  t.flush.under_way = false;
  if (error == 0) {
    t.flush.nic_wrote = false;
    flush_->count_read();
  }
  --t.moved.in_flight;
}

// The device's memory that a peer wrote to; nothing to do where that is host memory. The peer names
// an address only: of several devices that have it, each may be the one. Packets that come through
// shared memory can be younger than the last look at the core.
int transfer_flush::flush_at(const connection& by, std::uint64_t address) {
  if (!flush_ || !device::may_be_device_address(address)) return 0;
  int failed = 0;
  devices_.each_owner(address, [&](device::device& on) {
    if (!by.shm && is_flushed(on, other_writers_)) return;
    if (const int error = flush_device(on)) failed = error;
  });
  return failed;
}

int transfer_flush::flush_device(device::device& on) {
  int failed = 0;
  if (const auto done = flush_->flush(on); !done) failed = -done.code();
  for (const rail_interface& one : rails_.others) {
    if (!one.nic || (other_writers_ >> one.nic->number() & 1) == 0) continue;
    if (const auto done = one.nic->flush().flush(on); !done) failed = -done.code();
  }
  if (failed == 0) last_ = {.on = &on, .looks = core_.looks(), .by_other_nics = other_writers_};
  return failed;
}

// A direct RMA write; all others are answered by the target's provider, which flushes first.
bool transfer_flush::wants_remote_flush(const transfer& t) const noexcept {
  return t.rma.delivery && t.outcome.status == 0 && t.strategy == transfer_strategy::push &&
         !t.slots.in_use && t.peer_operation == 0 && flush_ && flush_->active() &&
         device::may_be_device_address(t.remote.front().address);
}

void transfer_flush::ask_to_flush(const transfer& t) {
  wire::event_fields fields{};
  fields.data = t.id;
  fields.length = t.length;
  fields.address = t.remote.front().address;
  channel_.send_control(*t.connection, wire::kind::flush, 0, fields, sizeof fields);
}

}  // namespace gaudi::proto
