// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection.hpp"

#include <algorithm>

namespace gaudi::proto {

bool connection::is_idle() const noexcept {
  return transfers.empty() && posted.empty() && ordered.empty() && control_queue.empty() &&
         control_buffers.empty() && postponed.empty() && !holds_early;
}

shared_slots* connection::slots_to_us() {
  if (!link) return nullptr;
  if (!slots_in) slots_in = std::make_unique<shared_slots>(link->slots_in(), link->slot_size());
  return slots_in->count() == 0 ? nullptr : slots_in.get();
}

bool connection::are_slots_of_peer(const wire::grant_fields& g) {
  if (!link) return false;
  if (!slots_out) slots_out = std::make_unique<shared_slots>(link->slots_out(), link->slot_size());
  return std::all_of(g.segments, g.segments + g.segment_count, [&](const wire::segment& s) {
    return s.address < slots_out->count() && s.length <= slots_out->slot_size();
  });
}

bool connection::is_kept_from_peer() {
  return link && link->peer_reaches() == ipc::reaching::no && slots_to_us();
}

}  // namespace gaudi::proto
