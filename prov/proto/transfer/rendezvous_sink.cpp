// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/rendezvous_sink.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <string>

#include "base/log.hpp"
#include "copy/copy_queues.hpp"
#include "proto/transfer/cts.hpp"
#include "proto/transfer/implicit_registration.hpp"
#include "proto/transfer/rendezvous_source.hpp"

namespace gaudi::proto {
namespace {

// Whether all of it is host memory, as the peer says.
bool is_on_host(const wire::rts_fields& source) {
  return std::none_of(
      source.segments, source.segments + source.segment_count,
      [](const wire::segment& s) { return device::may_be_device_address(s.address); });
}

// Whether the source is host memory of a process on this host that the kernel keeps from us. The
// sink decides what then: it knows both ends' word by the time that something comes.
bool is_kept_from_us(connection& c, const wire::rts_fields& source) {
  return c.shm && !c.shm->cma() && c.slots_to_us() && is_on_host(source);
}

// Whether the kernel copies it, and not the core.
bool is_copied_by_kernel(connection& c, const wire::rts_fields& source) {
  return c.shm && c.shm->cma() && is_on_host(source);
}

// Once for each peer and reason.
void tell(const connection& c, const path_choice& chosen) {
  std::uint32_t& told = c.remote->told_path_reasons;
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(chosen.reason);
  if (told & bit) return;
  told |= bit;
  GAUDI_INFO(EP_DATA, "long messages of %s go %s: %s\n", c.remote->name.to_string().c_str(),
             text_of(chosen.path), std::string(base::text_of(chosen.reason)).c_str());
}

}  // namespace

// Whether source and sink are memory of one device, in one process.
bool rendezvous_sink::is_one_device(const connection& c, const wire::rts_fields& source,
                                    bool by_allocation, const local_memory& sink) const noexcept {
  if (config_.rendezvous == base::rendezvous_choice::staged || !c.is_here() ||
      !sink.only_on_device())
    return false;
  for (std::size_t i = 0; i < sink.count(); ++i) {
    if (sink[i].owner != sink[0].owner) return false;
  }
  if (!copy::copy_queues::are_on(*sink[0].owner)) return false;
  return std::all_of(source.segments, source.segments + source.segment_count,
                     [&](const wire::segment& s) {
                       const auto where = sink[0].owner->find(s.address, s.length);
                       if (by_allocation) return where && where->allocation_id == s.key;
                       // A Gaudi1's address alone does not tell, nor does any that several devices
                       // have.
                       return where && device::is_device_address(s.address) &&
                              devices_.find_owner(s.address).owner == sink[0].owner;
                     });
}

path_facts rendezvous_sink::facts_of_sink(connection& c, const transfer& t) const {
  const bool on_device = t.memory.on_device();
  return {.sink_on_device = on_device,
          .sink_is_reached = on_device && t.memory.core_reaches(FI_REMOTE_WRITE),
          .sink_is_kept = !on_device && c.is_kept_from_peer(),
          .staging_is_chosen = !t.reach.zero_copy};
}

path_facts rendezvous_sink::facts_of(connection& c, const wire::rts_fields& rts, std::uint8_t flags,
                                     const transfer& t) const {
  path_facts facts = facts_of_sink(c, t);
  if (flags & wire::needs_cts) return facts;
  const bool by_allocation = flags & wire::alloc_ids;
  facts.offer = by_allocation ? source_offer::allocations : source_offer::keys;
  facts.one_device = is_one_device(c, rts, by_allocation, t.memory);
  if (facts.one_device) return facts;
  facts.imports = by_allocation && importer_.may_import(c, t.memory);
  facts.source_is_kept = !by_allocation && is_kept_from_us(c, rts);
  facts.core_reads_badly = !core_.reads_safely() && !is_copied_by_kernel(c, rts);
  return facts;
}

void rendezvous_sink::start(connection& c, const wire::rts_fields& rts, std::uint8_t flags,
                            transfer& t) {
  t.peer_operation = rts.operation;
  t.ending.tell_peer = true;
  t.reach.zero_copy = config_.rendezvous != base::rendezvous_choice::staged;
  if (t.length == 0 || t.outcome.status != 0) return completion_.complete(t, 0);
  register_implicitly(t, config_, FI_REMOTE_WRITE);
  const path_choice chosen = choose_path(facts_of(c, rts, flags, t));
  t.reach.why = chosen.reason;
  records_.begin(t);
  go(c, rts, t, chosen);
}

void rendezvous_sink::ask_to_write(connection& c, transfer& t) {
  path_facts facts = facts_of_sink(c, t);
  facts.offer = source_offer::allocations;
  const path_choice chosen = choose_path_of_source(facts);
  t.reach.why = chosen.reason;
  go(c, {}, t, chosen);
}

void rendezvous_sink::go(connection& c, const wire::rts_fields& rts, transfer& t,
                         const path_choice& chosen) {
  tell(c, chosen);
  paths_.count_choice(chosen.reason);
  switch (chosen.path) {
    case transfer_path::engine:
      t.pull.via_copy_engine = true;
      return read_source(c, rts, t);
    case transfer_path::dmabuf:
      return importer_.start(c, rts, t);
    case transfer_path::read:
      return read_source(c, rts, t);
    case transfer_path::write:
      return have_it_written(t);
    case transfer_path::slots:
      if (!slots_.grant(t)) completion_.complete(t, FI_ENOMEM);
      return;
    case transfer_path::undecided:
      return;
  }
}

void rendezvous_sink::read_source(connection& c, const wire::rts_fields& rts, transfer& t) {
  t.strategy = transfer_strategy::pull;
  t.remote.assign(rts.segments, rts.segments + rts.segment_count);
  cooperative_.request(c, rts, t);
  mover_.progress(t);
}

void rendezvous_sink::have_it_written(transfer& t) {
  wire::rts_fields own{};
  if (const int ret = expose(core_, t, own, FI_REMOTE_WRITE)) return completion_.complete(t, -ret);
  t.flush.nic_wrote = t.memory.on_device();
  wire::cts_fields g{};
  g.segment_count = own.segment_count;
  std::copy_n(own.segments, own.segment_count, g.segments);
  send_cts(channel_, t, g, wire::direct);
}

}  // namespace gaudi::proto
