// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/transfer_table.hpp"

#include "base/probes.hpp"

namespace gaudi::proto {

transfer* transfer_table::create(connection* c, const local_memory& memory,
                                 const completion_spec& completion) {
  transfer* t = pool_.create();
  if (!t) return nullptr;
  t->id = by_id_.insert(t);
  if (t->id == base::id_table<transfer>::invalid) {
    pool_.destroy(t);
    return nullptr;
  }
  t->connection = c;
  t->memory = memory;
  t->length = memory.length();
  t->outcome.completion = completion;
  base::probes::transfer_start(t->id, t->length);
  if (c) c->transfers.push_back(*t);
  return t;
}

void transfer_table::destroy(transfer& t) noexcept {
  if (t.connection && t.rma.partially_issued) --t.connection->rma_order.pending;
  if (t.connection && t.rma.blocks_later) --t.connection->rma_order.pending;
  if (t.connection) t.connection->transfers.erase(t.connection->transfers.iterator_to(t));
  if (t.stalled_hook.is_linked()) stalled_.erase(stalled_.iterator_to(t));
  if (t.for_peer_hook.is_linked()) for_peers_.erase(for_peers_.iterator_to(t));
  by_id_.erase(t.id);
  records_.end(t);
  pool_.destroy(&t);
}

// The pool frees memory, not objects.
void transfer_table::destroy_all() noexcept {
  stalled_.clear();
  for_peers_.clear();
  by_id_.for_each([&](transfer& t) { pool_.destroy(&t); });
}

}  // namespace gaudi::proto
