// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/dmabuf_importer.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/log.hpp"

namespace gaudi::proto {

bool dmabuf_importer::may_import(const connection& c, const local_memory& memory) const noexcept {
  return config_.dmabufs.imports && c.shm && !c.local.import_disabled && memory.core_reaches(0) &&
         config_.rendezvous != base::rendezvous_choice::staged;
}

void dmabuf_importer::start(connection& c, const wire::rts_fields& rts, transfer& t) {
  t.pull.via_nic = true;
  t.remote.assign(rts.segments, rts.segments + rts.segment_count);
  continue_import(c, t);
}

void dmabuf_importer::continue_import(connection& c, transfer& t) {
  while (t.pull.imported.size() < t.remote.size()) {
    const wire::segment& s = t.remote[t.pull.imported.size()];
    auto known = config_.dmabufs.imports->find({c.terms.instance, s.key});
    if (!known) return ask_for_dmabuf(c, t);
    if (!known->holds(s.address, s.length))
      return connections_.malformed(c, "rendezvous (allocation)");
    t.pull.imported.push_back(std::move(known));
  }
  for (std::size_t i = 0; i < t.remote.size(); ++i) t.remote[i].key = t.pull.imported[i]->mr.key();
  t.strategy = transfer_strategy::pull;
  mover_.progress(t);
}

void dmabuf_importer::ask_for_dmabuf(connection& c, const transfer& t) {
  wire::dmabuf_ask_fields fields{};
  fields.source_operation = t.peer_operation;
  fields.sink_operation = t.id;
  fields.segment = static_cast<std::uint32_t>(t.pull.imported.size());
  channel_.send_control(c, wire::kind::ask_dmabuf, 0, fields, sizeof fields);
}

transfer* dmabuf_importer::handle_dmabuf(connection& c, const wire::dmabuf_fields& sent) {
  // Taken by whoever asked, also where nobody wants it any more.
  const base::scoped_fd fd = sent.status == 0
                                 ? connections_.shm().import_from_peer(c, sent.allocation)
                                 : base::scoped_fd();
  transfer* const t = table_.find_active(c, sent.sink_operation);
  if (!t || !t->pull.via_nic || t->strategy != transfer_strategy::none) return nullptr;
  if (!fd) return give_up(c, *t, sent.status ? -sent.status : -FI_ENODATA);
  const wire::segment& wanted = t->remote[t->pull.imported.size()];
  auto got = import(c, sent, fd.get());
  if (!got) return give_up(c, *t, got.code());
  if (sent.allocation != wanted.key || !(*got)->holds(wanted.address, wanted.length)) {
    connections_.malformed(c, "dma-buf (allocation)");
    return nullptr;
  }
  t->pull.imported.push_back(*std::move(got));
  continue_import(c, *t);
  return nullptr;
}

base::result<reg::import_cache::handle> dmabuf_importer::import(const connection& c,
                                                                const wire::dmabuf_fields& sent,
                                                                int fd) {
  if (const auto loop = config_.loop->connect(); !loop) return loop.failure();
  return config_.dmabufs.imports->add(
      {c.terms.instance, sent.allocation},
      {.fd = fd, .offset = sent.offset, .length = sent.length, .base_addr = sent.address});
}

transfer* dmabuf_importer::give_up(connection& c, transfer& t, int why) {
  if (!std::exchange(c.local.import_disabled, true))
    GAUDI_INFO(MR,
               "this NIC does not read the device memory of %s by its dma-buf: %s; it goes through "
               "host memory\n",
               c.remote->name.to_string().c_str(), fi_strerror(-why));
  t.pull.via_nic = false;
  t.remote.clear();
  t.pull.imported.clear();
  return &t;
}

void dmabuf_importer::forget_freed(const connection& c, const wire::allocation_fields& told) {
  if (config_.dmabufs.imports) config_.dmabufs.imports->forget({c.terms.instance, told.allocation});
}

}  // namespace gaudi::proto
