// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory that its own process's NIC does not reach, and that of a peer on this host may: a
// source names its allocations, the sink asks for their dma-bufs, registers them with its own NIC
// and lets that read. It keeps them for the next transfer, until the source tells that they are
// freed. What comes to nothing is staged.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "proto/endpoint.hpp"
#include "proto/rts.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::proto {
namespace {

// Shorter ones are staged sooner than the NIC learns of their memory.
constexpr std::size_t min_to_pass = std::size_t{128} * 1024;

}  // namespace

// At the source: names the allocations of memory that is worth it. False: it is not passed.
bool endpoint::name_for_peer(const connection& c, const local_memory& memory,
                             wire::rts_fields& rts) const {
  using base::rendezvous_choice;
  const bool pulled = config_.rendezvous == rendezvous_choice::automatic ||
                      config_.rendezvous == rendezvous_choice::read;
  if (!config_.passes_dmabufs || !c.shm || !c.peer_takes_dmabufs || !pulled ||
      !name_allocations(memory, rts))
    return false;
  return memory.length() >= min_to_pass ||
         std::any_of(rts.segments, rts.segments + rts.segment_count,
                     [&](const wire::segment& s) { return exported_.has(s.key, c.id); });
}

// At the sink. Whether our NIC may be tried.
bool endpoint::may_import(const connection& c, const local_memory& memory) const noexcept {
  return config_.imports && c.shm && !c.import_disabled && memory.core_reaches(0) &&
         config_.rendezvous != base::rendezvous_choice::staged;
}

void endpoint::start_import(connection& c, const wire::rts_fields& rts, transfer& t) {
  if (!may_import(c, t.memory)) return ask_to_write(c, t);
  t.via_nic = true;
  t.remote.assign(rts.segments, rts.segments + rts.segment_count);
  continue_import(c, t);
}

void endpoint::continue_import(connection& c, transfer& t) {
  while (t.imported.size() < t.remote.size()) {
    const wire::segment& s = t.remote[t.imported.size()];
    auto known = config_.imports->find({c.remote_instance, s.key});
    if (!known) return ask_for_dmabuf(c, t);
    if (!known->holds(s.address, s.length)) return malformed(c, "rendezvous (allocation)");
    t.imported.push_back(std::move(known));
  }
  for (std::size_t i = 0; i < t.remote.size(); ++i) t.remote[i].key = t.imported[i]->mr.key();
  t.strategy = transfer_strategy::pull;
  progress_transfer(t);
}

void endpoint::ask_for_dmabuf(connection& c, const transfer& t) {
  wire::dmabuf_ask_fields fields{};
  fields.source_operation = t.peer_operation;
  fields.sink_operation = t.id;
  fields.segment = static_cast<std::uint32_t>(t.imported.size());
  send_control(c, wire::kind::ask_dmabuf, 0, fields, sizeof fields);
}

// Only what the source's own operation sends is given away.
void endpoint::export_to_peer(connection& c, const wire::dmabuf_ask_fields& request) {
  wire::dmabuf_fields fields{};
  fields.sink_operation = request.sink_operation;
  const transfer* const t = transfers_.find(request.source_operation);
  const bool named = c.shm && t && t->connection == &c && !t->ending &&
                     t->role == transfer_role::source && t->strategy == transfer_strategy::none;
  fields.status = named ? -send_dmabuf(c, *t, request.segment, fields) : FI_ENOENT;
  send_control(c, wire::kind::dmabuf, 0, fields, sizeof fields);
}

int endpoint::send_dmabuf(connection& c, const transfer& t, std::uint32_t segment,
                          wire::dmabuf_fields& fields) {
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    const local_segment& s = t.memory[i];
    if (s.length == 0) continue;
    if (segment-- != 0) continue;
    const auto where = s.owner ? s.owner->find(s.address, s.length)
                               : base::result<device::location>(base::error{-FI_EACCES});
    if (!where) return where.code();
    const auto exported = reg::export_allocation(*s.owner, *where);
    if (!exported) return exported.code();
    fields.allocation = where->allocation_id;
    fields.offset = exported->range.offset;
    fields.length = exported->range.length;
    fields.address = exported->range.base_addr;
    exported_.add(*s.owner, where->allocation_id, c.id);
    return connections_->send_dmabuf(c, where->allocation_id, exported->range.fd);
  }
  return -FI_EINVAL;
}

void endpoint::import_from_peer(connection& c, const wire::dmabuf_fields& sent) {
  // Taken by whoever asked, also where nobody wants it any more.
  const base::scoped_fd fd =
      sent.status == 0 ? connections_->import_from_peer(c, sent.allocation) : base::scoped_fd();
  transfer* const t = transfers_.find(sent.sink_operation);
  if (!t || t->connection != &c || t->ending || !t->via_nic ||
      t->strategy != transfer_strategy::none)
    return;
  if (!fd) return fall_back_to_staging(c, *t, sent.status ? -sent.status : -FI_ENODATA);
  const wire::segment& wanted = t->remote[t->imported.size()];
  auto got = import(c, sent, fd.get());
  if (!got) return fall_back_to_staging(c, *t, got.code());
  if (sent.allocation != wanted.key || !(*got)->holds(wanted.address, wanted.length))
    return malformed(c, "dma-buf (allocation)");
  t->imported.push_back(*std::move(got));
  continue_import(c, *t);
}

base::result<reg::import_cache::handle> endpoint::import(const connection& c,
                                                         const wire::dmabuf_fields& sent, int fd) {
  if (const auto loop = config_.loop->connect(); !loop) return loop.failure();
  return config_.imports->add(
      {c.remote_instance, sent.allocation},
      {.fd = fd, .offset = sent.offset, .length = sent.length, .base_addr = sent.address});
}

void endpoint::fall_back_to_staging(connection& c, transfer& t, int why) {
  if (!std::exchange(c.import_disabled, true))
    GAUDI_INFO(MR,
               "this NIC does not read the device memory of %s by its dma-buf: %s; it goes through "
               "host memory\n",
               c.remote->name.to_string().c_str(), fi_strerror(-why));
  t.via_nic = false;
  t.remote.clear();
  t.imported.clear();
  ask_to_write(c, t);
}

int endpoint::read_by_nic(transfer& t, posted_op& w, void* bytes, void* descriptor,
                          std::size_t length, const wire::segment& from) {
  const base::cancellation_deferred until_it_is_read;
  const auto done = config_.loop->read(bytes, descriptor, length, from.address, from.key);
  list_posted(*t.connection, w);
  local_copies_.push_back({&w, length, -done.code()});
  return 0;
}

void endpoint::tell_of_freed() {
  for (const exported_dmabufs::export_record& g : exported_.take_freed()) {
    connection* const c = connections_->find(g.connection);
    if (!c) continue;
    wire::allocation_fields fields{};
    fields.allocation = g.allocation;
    send_control(*c, wire::kind::dmabuf_revoke, 0, fields, sizeof fields);
  }
}

void endpoint::forget_freed(const connection& c, const wire::allocation_fields& told) {
  if (config_.imports) config_.imports->forget({c.remote_instance, told.allocation});
}

}  // namespace gaudi::proto
