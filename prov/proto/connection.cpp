// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection.hpp"

#include <algorithm>

namespace gaudi::proto {

bool connection::is_idle() const noexcept {
  return transfers.empty() && posted.empty() && ordered.empty() && control_queue.empty() &&
         control_buffers.empty() && postponed.empty() && !holds_early;
}

shared_slots* connection::slots_to_us() {
  if (!shm) return nullptr;
  if (!slots_in) slots_in = std::make_unique<shared_slots>(shm->slots_in(), shm->slot_size());
  return slots_in->count() == 0 ? nullptr : slots_in.get();
}

bool connection::are_slots_of_peer(const wire::cts_fields& g) {
  if (!shm) return false;
  if (!slots_out) slots_out = std::make_unique<shared_slots>(shm->slots_out(), shm->slot_size());
  return std::all_of(g.segments, g.segments + g.segment_count, [&](const wire::segment& s) {
    return s.address < slots_out->count() && s.length <= slots_out->slot_size();
  });
}

bool connection::is_kept_from_peer() {
  return shm && shm->peer_cma_state() == ipc::cma_state::no && slots_to_us();
}

}  // namespace gaudi::proto
