// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection.hpp"

#include <algorithm>

namespace gaudi::proto {

bool connection::is_idle() const noexcept {
  return transfers.empty() && at_core.posted.empty() && outbox.ordered.empty() &&
         !outbox.has_control() && postponed.empty() && !rma_order.holds_early &&
         remote->unposted == 0 && session.undone.empty() && session.to_redo.empty();
}

void connection::take_nics(reg::other_nic* here, std::uint8_t there) noexcept {
  session.is_away = at_core.rails && (here || there != 0);
  if (!at_core.rails) return;
  rail& first = at_core.rails->rails.front();
  first.nic = here;
  first.peer_nic = there;
}

void connection::take_terms(const wire::hello& remote_hello,
                            std::uint32_t own_eager_limit) noexcept {
  terms = {.connection_id = remote_hello.connection,
           .eager_limit = std::min(remote_hello.eager_limit, own_eager_limit),
           .instance = remote_hello.instance,
           .takes_dmabufs = (remote_hello.flags & wire::takes_dmabufs) != 0};
}

shared_slots* connection::slots_to_us() {
  if (!shm) return nullptr;
  if (!local.slots_in)
    local.slots_in = std::make_unique<shared_slots>(shm->slots_in(), shm->slot_size());
  return local.slots_in->count() == 0 ? nullptr : local.slots_in.get();
}

bool connection::are_slots_of_peer(const wire::cts_fields& g) {
  if (!shm) return false;
  if (!local.slots_out)
    local.slots_out = std::make_unique<shared_slots>(shm->slots_out(), shm->slot_size());
  return std::all_of(g.segments, g.segments + g.segment_count, [&](const wire::segment& s) {
    return s.address < local.slots_out->count() && s.length <= local.slots_out->slot_size();
  });
}

bool connection::is_kept_from_peer() {
  return shm && shm->peer_cma_state() == ipc::cma_state::no && slots_to_us();
}

}  // namespace gaudi::proto
