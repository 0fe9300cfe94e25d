// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/route.hpp"

namespace gaudi::proto {

route route_of(const connection& c, const rail_settings& settings, std::size_t number) noexcept {
  route r{.to = &c.remote->name};
  const std::size_t own = number % (settings.others.size() + 1);
  if (own != 0) r.from = &settings.others[own - 1];
  const rail_set* const rails = c.at_core.rails.get();
  if (number == 0 || !rails || rails->places.empty()) return r;
  const peer_place& there = rails->places[number % rails->places.size()];
  r.to = &there.name;
  r.peer_nic = there.nic;
  return r;
}

route session_routes::current(const connection& c) const noexcept {
  return settings_ ? route_of(c, *settings_, c.session.route) : route{.to = &c.remote->name};
}

// A peer that does not know from where a request can come refuses it.
bool session_routes::is_possible(const connection& c, std::size_t number) const noexcept {
  if (number == 0) return true;
  if (!settings_ || !c.at_core.rails || !c.at_core.rails->has_answer) return false;
  const route r = route_of(c, *settings_, number);
  const bool is_first = !r.from && number % c.at_core.rails->places.size() == 0;
  return !is_first && (c.session.may_move || (r.peer_nic == 0 && !r.nic()));
}

std::size_t session_routes::count(const connection& c) const noexcept {
  std::size_t possible = 1;
  for (std::size_t number = 1; settings_ && number < settings_->count; ++number)
    if (is_possible(c, number)) ++possible;
  return possible;
}

std::uint8_t session_routes::next(const connection& c) const noexcept {
  if (!settings_) return 0;
  std::size_t number = c.session.route;
  do {
    number = (number + 1) % settings_->count;
  } while (!is_possible(c, number));
  return static_cast<std::uint8_t>(number);
}

}  // namespace gaudi::proto
