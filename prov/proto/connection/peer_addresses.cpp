// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/peer_addresses.hpp"

#include <algorithm>

namespace gaudi::proto {

void peer_addresses::use(address_vector& av) {
  for (fi_addr_t i = 0; i < av.end(); ++i) {
    if (const net_address* known = av.find(i)) added(i, *known);
  }
  av.subscribe(*this);
  addresses_ = &av;
  connections_.peers().use(&av);
}

void peer_addresses::stop() noexcept {
  if (!addresses_) return;
  addresses_->unsubscribe(*this);
  addresses_ = nullptr;
  connections_.peers().use(nullptr);
}

peer* peer_addresses::meet(fi_addr_t address) {
  if (peer* const known = find(address)) return known;
  const net_address* const name = addresses_ ? addresses_->find(address) : nullptr;
  if (!name) return nullptr;
  peer& p = connections_.peers().named(*name);
  by_address_[address] = &p;
  return &p;
}

// A name that is in another scope in the vector could not be looked up there when its peer calls.
void peer_addresses::added(fi_addr_t index, const net_address& address) {
  if (index >= by_address_.size()) by_address_.resize(index + 1);
  peer_registry& peers = connections_.peers();
  peer* const p = peers.has_scope() ? &peers.named(address) : peers.find(address);
  by_address_[index] = p;
  if (p) p->address = std::min(p->address, index);
}

void peer_addresses::removed(fi_addr_t index, const net_address& address) {
  by_address_[index] = nullptr;
  peer* const p = connections_.peers().find(address);
  if (!p) return;
  p->address = addresses_->index_of(address);
  if (p->address == FI_ADDR_NOTAVAIL) closer_.not_needed(*p);
}

}  // namespace gaudi::proto
