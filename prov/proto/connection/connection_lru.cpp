// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection_lru.hpp"

#include <algorithm>
#include <utility>

namespace gaudi::proto {
namespace {

// Not what an endpoint has with itself: each of the two is the other one's peer.
bool can_be_closed(const connection& c) noexcept {
  return c.state == connection_state::connected && c.remote->current == &c &&
         c.remote->connections == 1 && c.remote->early == 0 && c.is_idle();
}

// Changes with each packet that comes or leaves: one that takes no credit brings some.
std::uint64_t use_of(const connection& c) noexcept {
  const std::uint64_t credits = c.data.available() + c.control.available();
  return (std::uint64_t{c.silence.packets} << 32) + credits;
}

void note_use(connection& c, std::uint64_t round) noexcept {
  const std::uint64_t use = use_of(c);
  const bool moved = std::exchange(c.closing.seen.rma, c.at_core.rma) != c.at_core.rma;
  if (std::exchange(c.closing.seen.use, use) != use || moved) c.closing.seen.round = round;
}

}  // namespace

std::vector<connection*> connection_lru::choose(connection_manager& connections,
                                                std::size_t count) {
  ++round_;
  std::vector<connection*> idle;
  connections.for_each([&](connection& c) {
    note_use(c, round_);
    if (can_be_closed(c)) idle.push_back(&c);
  });
  const auto last = idle.begin() + static_cast<std::ptrdiff_t>(std::min(count, idle.size()));
  std::partial_sort(idle.begin(), last, idle.end(), [](const connection* a, const connection* b) {
    return a->closing.seen.round < b->closing.seen.round;
  });
  idle.erase(last, idle.end());
  return idle;
}

}  // namespace gaudi::proto
