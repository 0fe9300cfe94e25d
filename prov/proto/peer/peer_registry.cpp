// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/peer/peer_registry.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace gaudi::proto {

peer& peer_registry::named(const net_address& given) {
  const net_address name = in_scope(given);
  if (const auto found = by_name_.find(name); found != by_name_.end()) return *found->second;
  if (peers_.size() >= to_look_at_) forget_unused();
  auto added = std::make_unique<peer>();
  added->number = numbers_.number_of(name);
  added->name = name;
  if (addresses_) added->address = addresses_->index_of(name);
  by_name_.emplace(name, added.get());
  try {
    peers_.push_back(std::move(added));
  } catch (const std::bad_alloc&) {
    by_name_.erase(name);
    throw;
  }
  return *peers_.back();
}

peer* peer_registry::find(const net_address& name) const noexcept {
  const auto found = by_name_.find(in_scope(name));
  return found == by_name_.end() ? nullptr : found->second;
}

// The next look is due when as many have come again, so that a look costs each newcomer little.
void peer_registry::forget_unused() {
  std::erase_if(peers_, [this](const auto& p) {
    if (!p->is_unused()) return false;
    numbers_.forget_number_of(p->name);
    by_name_.erase(p->name);
    return true;
  });
  to_look_at_ = std::max(min_to_look_at, 2 * peers_.size());
}

}  // namespace gaudi::proto
