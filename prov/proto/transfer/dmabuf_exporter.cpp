// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/dmabuf_exporter.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "proto/operation/rts.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::proto {

bool dmabuf_exporter::name_for_peer(const connection& c, const local_memory& memory,
                                    wire::rts_fields& rts) const {
  using base::rendezvous_choice;
  const bool pulled = config_.rendezvous == rendezvous_choice::automatic ||
                      config_.rendezvous == rendezvous_choice::read;
  if (!config_.dmabufs.are_passed || !c.shm || !c.terms.takes_dmabufs || !pulled ||
      !name_allocations(memory, rts))
    return false;
  return memory.length() >= c.shm->kernel().min_passed() ||
         std::any_of(rts.segments, rts.segments + rts.segment_count,
                     [&](const wire::segment& s) { return exported_.has(s.key, c.id); });
}

// Only what the source's own operation sends is given away.
void dmabuf_exporter::export_to_peer(connection& c, const wire::dmabuf_ask_fields& request) {
  wire::dmabuf_fields fields{};
  fields.sink_operation = request.sink_operation;
  const transfer* const t = table_.find_active(c, request.source_operation);
  const bool named =
      c.shm && t && t->role == transfer_role::source && t->strategy == transfer_strategy::none;
  fields.status = named ? -send_dmabuf(c, *t, request.segment, fields) : FI_ENOENT;
  channel_.send_control(c, wire::kind::dmabuf, 0, fields, sizeof fields);
}

int dmabuf_exporter::send_dmabuf(connection& c, const transfer& t, std::uint32_t segment,
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
    return connections_.shm().send_dmabuf(c, where->allocation_id, exported->range.fd);
  }
  return -FI_EINVAL;
}

void dmabuf_exporter::tell_of_freed() {
  for (const exported_dmabufs::export_record& g : exported_.take_freed()) {
    connection* const c = connections_.find(g.connection);
    if (!c) continue;
    wire::allocation_fields fields{};
    fields.allocation = g.allocation;
    channel_.send_control(*c, wire::kind::dmabuf_revoke, 0, fields, sizeof fields);
  }
}

}  // namespace gaudi::proto
