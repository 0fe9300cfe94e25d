// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/way_home.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace gaudi::proto {
namespace {

constexpr std::uint8_t max_doublings_of_pause = 5;

// Over the first link.
bool has_rail_home(const rail_set& set) noexcept {
  return std::any_of(set.rails.begin() + 1, set.rails.end(),
                     [](const rail& r) { return r.now == rail::state::up && r.route == 0; });
}

}  // namespace

void way_home::resumed(connection& c) noexcept {
  session& s = c.session;
  if (s.may_move && s.has_moved() && !s.is_away && s.returns < max_doublings_of_pause) ++s.returns;
}

void way_home::look_from_away(connection& c, base::clock::time_point now) {
  session& s = c.session;
  if (now - c.handshake.made_at < pause_ * (1 << s.returns)) return;
  if (!has_rail_home(*c.at_core.rails)) return rails_.want(c);
  s.interruption.goes_home = true;
  connections_.lost_soon(c, FI_ESHUTDOWN);
}

}  // namespace gaudi::proto
