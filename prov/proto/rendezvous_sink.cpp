// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/rendezvous_sink.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "device/device_registry.hpp"
#include "proto/cts.hpp"
#include "proto/rendezvous_source.hpp"

namespace gaudi::proto {
namespace {

// Whether the source is host memory of a process on this host that the kernel keeps from us. The
// sink decides what then: it knows both ends' word by the time that something comes.
bool is_kept_from_us(connection& c, const wire::rts_fields& source) {
  const auto any = [&](auto is) {
    return std::any_of(source.segments, source.segments + source.segment_count, is);
  };
  return c.shm && !c.shm->cma() && c.slots_to_us() &&
         !any([](const wire::segment& s) { return device::may_be_device_address(s.address); });
}

}  // namespace

// Whether source and sink are memory of one device, in one process.
bool rendezvous_sink::is_copied_by_engine(const connection& c, const wire::rts_fields& source,
                                          bool by_allocation,
                                          const local_memory& sink) const noexcept {
  if (config_.rendezvous == base::rendezvous_choice::staged || !c.is_here() ||
      !sink.only_on_device())
    return false;
  for (std::size_t i = 0; i < sink.count(); ++i) {
    if (sink[i].owner != sink[0].owner) return false;
  }
  return std::all_of(
      source.segments, source.segments + source.segment_count, [&](const wire::segment& s) {
        const auto where = sink[0].owner->find(s.address, s.length);
        if (by_allocation) return where && where->allocation_id == s.key;
        // A Gaudi1's address alone does not tell, nor does any that several devices
        // have.
        return where && device::is_device_address(s.address) &&
               device::device_registry::instance().find_owner(s.address).owner == sink[0].owner;
      });
}

void rendezvous_sink::start(connection& c, const wire::rts_fields& rts, std::uint8_t flags,
                            transfer& t) {
  t.peer_operation = rts.operation;
  t.ending.tell_peer = true;
  t.reach.zero_copy = config_.rendezvous != base::rendezvous_choice::staged;
  records_.begin(t);
  if (t.length == 0 || t.outcome.status != 0) return completion_.complete(t, 0);
  if (flags & wire::needs_cts) return ask_to_write(c, t);
  const bool by_allocation = flags & wire::alloc_ids;
  t.pull.via_copy_engine = is_copied_by_engine(c, rts, by_allocation, t.memory);
  if (by_allocation && !t.pull.via_copy_engine) {
    if (!importer_.start(c, rts, t)) ask_to_write(c, t);
    return;
  }
  if (t.pull.via_copy_engine || !is_kept_from_us(c, rts)) {
    t.strategy = transfer_strategy::pull;
    t.remote.assign(rts.segments, rts.segments + rts.segment_count);
    cooperative_.request(c, rts, t);
    return mover_.progress(t);
  }
  ask_to_write(c, t);
}

void rendezvous_sink::ask_to_write(connection& c, transfer& t) {
  const bool reached = t.reach.zero_copy && t.memory.core_reaches(FI_REMOTE_WRITE);
  if (t.memory.on_device() ? !reached : c.is_kept_from_peer()) {
    if (!slots_.grant(t)) completion_.complete(t, FI_ENOMEM);
    return;
  }

  wire::rts_fields own{};
  if (const int ret = expose(core_, t, own, FI_REMOTE_WRITE)) return completion_.complete(t, -ret);
  t.flush.nic_wrote = t.memory.on_device();
  wire::cts_fields g{};
  g.segment_count = own.segment_count;
  std::copy_n(own.segments, own.segment_count, g.segments);
  send_cts(channel_, t, g, wire::direct);
}

}  // namespace gaudi::proto
