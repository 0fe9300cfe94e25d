// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages and RMA data that do not fit one packet.
//
// The owner of the source sends an rts. Either it names the source's memory, and the sink pulls it
// by core reads; or it asks for a grant (wire::staged), and the sink answers with its final memory
// or with staging slots, and the source writes. Which one is FI_GAUDI_RNDV's choice, and each works
// with every kind of memory at either end: what the core reaches it moves itself, device memory
// that it does not reach goes through chunks and slots, which are emptied to the sink's device and
// given back. Between endpoints of one process the device itself copies. Of peers on one host that
// one copies whom the kernel lets, and the other helps (cooperative_copy.cpp); if it lets neither,
// host memory goes through slots, too; and what only the sink's NIC reaches is pulled by that
// (dmabuf_exchange.cpp). In the end the sink sends `fin`, which ends the source's operation;
// before that, a source that wrote to final memory sends `fin` to the sink, which cannot know
// otherwise.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "proto/endpoint.hpp"
#include "proto/rts.hpp"

namespace gaudi::proto {
namespace {

// Writes of the source's can be on their way into slots of a transfer that failed here.
bool may_be_written_to(const transfer& t) noexcept {
  return t.status != 0 && t.granted.held() != 0 && !t.peer_ended && t.connection &&
         t.connection->usable();
}

// Until the source answers that it is done, or goes, nobody else is given the slots.
void keep_for_peer(transfer& t) {
  t.slots_on_loan = true;
  t.memory = {};
}

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

transfer* endpoint::new_transfer(connection* c, const local_memory& memory,
                                 const completion_spec& completion) {
  transfer* t = transfer_pool_.create();
  if (!t) return nullptr;
  t->id = transfers_.insert(t);
  if (t->id == base::id_table<transfer>::invalid) {
    transfer_pool_.destroy(t);
    return nullptr;
  }
  t->connection = c;
  t->memory = memory;
  t->length = memory.length();
  t->completion = completion;
  if (c) c->transfers.push_back(*t);
  return t;
}

// Gives the transfer's things back; tells nobody.
void endpoint::free_transfer(transfer& t) {
  if (t.cooperative) end_cooperative_copy(t);
  std::erase(grant_queue_, &t);
  take_slots_back(t);
  if (t.connection && t.partially_issued) --t.connection->ordered_rma_pending;
  if (t.connection && t.blocks_later) --t.connection->ordered_rma_pending;
  if (t.connection) t.connection->transfers.erase(t.connection->transfers.iterator_to(t));
  if (t.stalled_hook.is_linked()) stalled_.erase(stalled_.iterator_to(t));
  if (t.for_peer_hook.is_linked()) for_peers_.erase(for_peers_.iterator_to(t));
  transfers_.erase(t.id);
  transfer_pool_.destroy(&t);
}

// The operation is over, as soon as nothing handed out is still under way.
void endpoint::complete(transfer& t, int status) {
  if (t.status == 0) t.status = status;
  t.ending = true;
  try_retire(t);
}

void endpoint::try_retire(transfer& t) {
  if (!t.ending || t.in_flight != 0) return;
  if (t.cooperative && !helper_is_through(t)) return stall(t);
  if (t.slots_on_loan) return free_transfer(t);
  if (t.status == 0) t.status = t.memory.loss();
  // Before the application is told.
  if (t.nic_wrote && flush_by_fin(t)) return;
  if (t.nic_wrote && t.status == 0) t.status = flush_local(t);
  if (t.connection && t.connection->usable()) {
    if (t.has_event && t.status == 0) {
      wire::event_fields fields{};
      fields.data = t.event_data;
      fields.length = t.length;
      fields.address = t.remote.front().address;
      send_control(*t.connection, wire::kind::event, wire::cq_data, fields, sizeof fields);
    }
    const bool failed_source =
        t.status != 0 && t.role == transfer_role::source && t.peer_operation != 0;
    if (t.tell_peer || failed_source) send_fin(*t.connection, t.peer_operation, t.status);
  }
  cq_entry entry = t.result;
  if (t.status != 0) entry.error = t.status;
  const completion_spec completion = std::exchange(t.completion, {});
  if (may_be_written_to(t)) {
    keep_for_peer(t);
  } else {
    free_transfer(t);
  }
  completion.end(entry);
}

int endpoint::send_rendezvous(connection& c, const local_memory& memory,
                              const send_params& message) {
  buffer* b = send_buffers_->acquire();
  transfer* t = b ? new_transfer(&c, memory, message.completion) : nullptr;
  if (!t) {
    if (b) send_buffers_->release(*b);
    return why_nothing_left();
  }
  t->role = transfer_role::source;
  std::uint8_t flags = message.wire_flags;
  wire::eager_fields fields{};
  fields.tag = message.tag;
  fields.data = message.data;
  fields.operation = t->id;
  wire::rts_fields rts{};
  int ret = offer(*t, rts, flags);
  if (ret == 0) {
    fields.head = {wire::kind::rts, static_cast<std::uint8_t>(flags | wire::want_fin), 0, 0,
                   c.remote_id};
    std::memcpy(b->bytes, &fields, sizeof fields);
    const std::size_t size = rts_size(rts);
    std::memcpy(b->bytes + sizeof fields, &rts, size);
    b->length = sizeof fields + size;
    b->on_sent = {};
    b->awaits = t->id;
    b->failed = 0;
    ret = submit_ordered(c, *b);
  }
  if (ret) {
    free_transfer(*t);
    recycle(*b);
  }
  return ret;
}

// Whether the peer shall say where our data is to go, because it cannot or shall not read it here.
bool endpoint::wants_cts(const local_memory& memory) const noexcept {
  using base::rendezvous_choice;
  if (config_.rendezvous == rendezvous_choice::write) return true;
  if (config_.rendezvous == rendezvous_choice::staged) return memory.on_device();
  return !memory.core_reaches(FI_REMOTE_READ);
}

// Fills in the rts of a source; adds to its message's flags.
int endpoint::offer(transfer& t, wire::rts_fields& rts, std::uint8_t& flags) noexcept try {
  t.zero_copy = config_.rendezvous != base::rendezvous_choice::staged;
  if (!wants_cts(t.memory)) return expose(t, rts, FI_REMOTE_READ);
  rts.operation = t.id;
  rts.length = t.length;
  rts.segment_count = 0;
  const bool named =
      t.zero_copy && (t.connection->is_here() ? name_allocations(t.memory, rts)
                                              : name_for_peer(*t.connection, t.memory, rts));
  flags |= named ? wire::alloc_ids : wire::needs_cts;
  if (!named) rts.segment_count = 0;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

// Describes our memory for the peer. Host memory is made accessible to it for the time of the
// transfer; device memory is reached by the core already.
int endpoint::expose(transfer& t, wire::rts_fields& rts, std::uint64_t access) {
  rts.operation = t.id;
  rts.length = t.length;
  rts.segment_count = 0;
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    const local_segment& s = t.memory[i];
    if (s.length == 0) continue;
    auto& named = rts.segments[rts.segment_count];
    named.address = s.address;
    named.length = s.length;
    const core::inner_mr* known = s.registered ? s.registered->core_for(access) : nullptr;
    if (known) {
      named.key = known->key();
    } else {
      auto mr = core_.register_memory(s.host(), s.length, access);
      if (!mr) {
        GAUDI_WARN(MR, "the core cannot register %zu bytes at 0x%lx: %s (see RLIMIT_MEMLOCK)\n",
                   s.length, s.address, fi_strerror(-mr.code()));
        return mr.code();
      }
      named.key = mr->key();
      t.exposed.push_back(std::move(*mr));
    }
    ++rts.segment_count;
  }
  return 0;
}

// The transfer's memory is where the data goes, and its length what is wanted of it.
void endpoint::start_sink(connection& c, const wire::rts_fields& rts, std::uint8_t flags,
                          transfer& t) {
  t.peer_operation = rts.operation;
  t.tell_peer = true;
  t.zero_copy = config_.rendezvous != base::rendezvous_choice::staged;
  if (t.length == 0 || t.status != 0) return complete(t, 0);
  if (flags & wire::needs_cts) return ask_to_write(c, t);
  const bool by_allocation = flags & wire::alloc_ids;
  t.via_copy_engine = is_copied_by_engine(c, rts, by_allocation, t.memory);
  if (by_allocation && !t.via_copy_engine) return start_import(c, rts, t);
  if (t.via_copy_engine || !is_kept_from_us(c, rts)) {
    t.strategy = transfer_strategy::pull;
    t.remote.assign(rts.segments, rts.segments + rts.segment_count);
    request_assist(c, rts, t);
    return progress_transfer(t);
  }
  ask_to_write(c, t);
}

// The source has to bring it.
void endpoint::ask_to_write(connection& c, transfer& t) {
  const bool reached = t.zero_copy && t.memory.core_reaches(FI_REMOTE_WRITE);
  if (t.memory.on_device() ? !reached : c.is_kept_from_peer()) return grant_slots(t);

  wire::rts_fields own{};
  if (const int ret = expose(t, own, FI_REMOTE_WRITE)) return complete(t, -ret);
  t.nic_wrote = t.memory.on_device();
  wire::cts_fields g{};
  g.segment_count = own.segment_count;
  std::copy_n(own.segments, own.segment_count, g.segments);
  send_cts(c, t, g, wire::direct);
}

void endpoint::send_cts(connection& c, const transfer& t, wire::cts_fields& g, std::uint8_t flags) {
  g.source_operation = t.peer_operation;
  g.target_operation = t.id;
  g.length = t.length;
  send_control(c, wire::kind::cts, flags, g,
               offsetof(wire::cts_fields, segments) + g.segment_count * sizeof(wire::segment));
}

}  // namespace gaudi::proto
