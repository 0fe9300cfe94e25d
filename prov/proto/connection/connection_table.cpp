// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection_table.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/make_room.hpp"

namespace gaudi::proto {

base::result<connection*> connection_table::add(peer& p, connection_state s) {
  auto c = std::make_unique<connection>(p, s);
  const std::size_t needed = total() + 1;
  if (!base::make_room(connections_)) return base::error{-FI_ENOMEM};
  base::reserve_ahead(removed_, needed);
  c->id = by_id_.insert(c.get());
  if (c->id == by_id_.invalid) return base::error{-FI_ENOMEM};
  connections_.push_back(std::move(c));
  return connections_.back().get();
}

void connection_table::set_endpoint(connection& c, core::unique_fid<fid_ep> ep) {
  c.ep = std::move(ep);
  by_fid_.emplace(&c.ep->fid, &c);
}

void connection_table::close_endpoint(connection& c) noexcept {
  if (!c.ep) return;
  by_fid_.erase(&c.ep->fid);
  c.ep.reset();
}

void connection_table::remove(connection& c) noexcept {
  by_id_.erase(c.id);
  const auto place = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& owned) { return owned.get() == &c; });
  removed_.push_back(std::move(*place));
  std::swap(*place, connections_.back());
  connections_.pop_back();
}

connection* connection_table::of(const fid* endpoint) const noexcept {
  const auto found = by_fid_.find(endpoint);
  return found == by_fid_.end() ? nullptr : found->second;
}

}  // namespace gaudi::proto
