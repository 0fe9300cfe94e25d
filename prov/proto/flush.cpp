// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When data that a NIC wrote to device memory may be reported: after a flush at the end that has
// the memory. Who received it flushes by itself; who wrote to a peer with FI_DELIVERY_COMPLETE asks
// for it.
#include <rdma/fi_errno.h>

#include "device/table.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {

// 0 or a positive FI_E*.
int endpoint::flush_local(const transfer& t) {
  if (!how_.flush) return 0;
  const device::device* last = nullptr;
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    device::device* const on = t.memory[i].on;
    if (!on || on == last) continue;
    if (const auto done = how_.flush->flush(*on); !done) return -done.code();
    last = on;
  }
  return 0;
}

// The device's memory that a peer wrote to; nothing to do where that is host memory. The peer names
// an address only: of several devices that have it, each may be the one.
int endpoint::flush_at(std::uint64_t address) {
  if (!how_.flush || !device::may_be_device_address(address)) return 0;
  int failed = 0;
  device::table::instance().each_holder(address, [&](device::device& on) {
    if (const auto done = how_.flush->flush(on); !done) failed = -done.code();
  });
  return failed;
}

// A direct RMA write; all others are answered by the target's provider, which flushes first.
bool endpoint::wants_remote_flush(const transfer& t) const noexcept {
  return t.delivery && t.status == 0 && t.moves == transfer::motion::push && !t.slots &&
         t.peer_operation == 0 && how_.flush && how_.flush->active() &&
         device::may_be_device_address(t.remote.front().address);
}

void endpoint::ask_to_flush(const transfer& t) {
  wire::event_fields fields{};
  fields.data = t.id;
  fields.length = t.length;
  fields.address = t.remote.front().address;
  send_control(*t.on, wire::kind::flush, 0, fields, sizeof fields);
}

void endpoint::answer_flush(connection& c, const wire::event_fields& asked) {
  send_done(c, asked.data, flush_at(asked.address));
}

}  // namespace gaudi::proto
