// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/peer_addresses.hpp"

#include <algorithm>

namespace gaudi::proto {

void peer_addresses::use(address_vector& av) {
  for (fi_addr_t i = 0; i < av.end(); ++i) {
    if (const net_address* known = av.find(i)) added(i, *known);
  }
  av.subscribe(*this);
  addresses_ = &av;
}

void peer_addresses::stop() noexcept {
  if (addresses_) addresses_->unsubscribe(*this);
}

void peer_addresses::added(fi_addr_t index, const net_address& address) {
  peer& p = connections_.peers().named(address);
  if (index >= by_address_.size()) by_address_.resize(index + 1);
  by_address_[index] = &p;
  p.address = std::min(p.address, index);
}

void peer_addresses::removed(fi_addr_t index, const net_address& address) {
  peer* p = find(index);
  if (!p) return;
  by_address_[index] = nullptr;
  p->address = addresses_->index_of(address);
  if (p->address == FI_ADDR_NOTAVAIL) closer_.not_needed(*p);
}

}  // namespace gaudi::proto
