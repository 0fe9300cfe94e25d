// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/rail_connector.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "proto/channel/parse.hpp"
#include "proto/connection/route.hpp"

namespace gaudi::proto {
namespace {

// A request that was lost with a link is answered never.
constexpr std::chrono::milliseconds rail_attempt_limit{1000};

rail* find(rail_set& set, std::uint32_t number) noexcept {
  const auto found = std::find_if(set.rails.begin() + 1, set.rails.end(), [&](const rail& r) {
    return r.number == number && r.now != rail::state::down;
  });
  return found == set.rails.end() ? nullptr : &*found;
}

}  // namespace

void rail_connector::requested(fi_info& info, reg::other_nic* at, const hello& remote_hello) {
  connection* const c = parts_.connections.find(wire::resumed(remote_hello));
  const bool is_known = c && c->goes_on() && c->terms.instance == remote_hello.instance &&
                        c->terms.connection_id == remote_hello.connection;
  if (is_known && accept(*c, info, at, remote_hello) == 0) return;
  hello why = hello_of_rail(parts_.connections.instance(), 0, 0, 0, parts_.connections.name());
  why.reason = static_cast<std::uint8_t>(is_known ? wire::reject_reason::resources
                                                  : wire::reject_reason::no_session);
  parts_.connections.connector().reject(info, why);
}

// Once there is an endpoint the request is its own, and its end refuses it.
int rail_connector::accept(connection& c, fi_info& info, reg::other_nic* at,
                           const hello& remote_hello) {
  if (!c.at_core.rails) c.at_core.rails = std::make_unique<rail_set>(settings_.count);
  auto& accepted = c.at_core.rails->of_peer;
  if (accepted.size() >= wire::max_rails) return -FI_ENOSPC;
  accepted.reserve(accepted.size() + 1);
  core_connector& connector = parts_.connections.connector();
  const base::cancellation_deferred until_it_is_made;
  auto ep = connector.create_endpoint(info, nullptr, at);
  if (!ep) return ep.code();
  by_endpoint_[&(*ep)->fid] = {c.id, remote_hello.host, true};
  accepted.push_back({remote_hello.host, std::move(*ep), at});
  fid_ep* const made = accepted.back().ep.get();
  const hello answer = hello_of_rail(parts_.connections.instance(), c.id, c.terms.connection_id,
                                     remote_hello.host, parts_.connections.name());
  if (!connector.enable(made, at) || fi_accept(made, &answer, sizeof answer))
    close_of_peer(c, remote_hello.host);
  return 0;
}

void rail_connector::up(const fid* endpoint) noexcept {
  const auto of = by_endpoint_.find(endpoint);
  connection* const c =
      of == by_endpoint_.end() ? nullptr : parts_.connections.find(of->second.connection);
  if (!c || of->second.is_peers) return;
  rail* const r = find(*c->at_core.rails, of->second.number);
  if (!r || r->now != rail::state::connecting) return;
  r->now = rail::state::up;
  r->load = {};
  count_up(*r);
  parts_.reports.rail_up(*c, static_cast<std::size_t>(r - c->at_core.rails->rails.data()));
}

void rail_connector::count_up(const rail& r) noexcept {
  ++parts_.paths.rails.made;
  rail_counters* const own = settings_.counters_of(r.route);
  if (!own) return;
  ++own->made;
  ++own->up;
}

void rail_connector::count_down(const rail& r) const noexcept {
  if (rail_counters* const own = settings_.counters_of(r.route)) --own->up;
}

// Not closed at once: completions may be on their way through us.
void rail_connector::ended(const fid* endpoint) noexcept {
  const auto of = by_endpoint_.find(endpoint);
  connection* const c =
      of == by_endpoint_.end() ? nullptr : parts_.connections.find(of->second.connection);
  if (!c) return;
  if (of->second.is_peers) {
    note_end_of_peers(*c, of->second.number);
  } else if (rail* const r = find(*c->at_core.rails, of->second.number)) {
    parts_.scheduler.fail(*c, *r);
  }
}

void rail_connector::close(core::unique_fid<fid_ep>& ep) noexcept {
  if (!ep) return;
  by_endpoint_.erase(&ep->fid);
  ep.reset();
}

void rail_connector::note_end_of_peers(connection& c, std::uint32_t number) noexcept {
  for (auto& a : c.at_core.rails->of_peer) a.has_ended = a.has_ended || a.number == number;
  parts_.scheduler.look_at(c);
}

// An end that only waits for what the other one says may never hear of a loss by itself.
void rail_connector::tell_of_ends(connection& c) {
  auto& accepted = c.at_core.rails->of_peer;
  const auto has_ended = [](const auto& a) { return a.has_ended; };
  for (auto ended = std::find_if(accepted.begin(), accepted.end(), has_ended);
       ended != accepted.end(); ended = std::find_if(accepted.begin(), accepted.end(), has_ended)) {
    const std::uint32_t number = ended->number;
    close_of_peer(c, number);
    send(c, wire::kind::rail_closed, number);
  }
}

void rail_connector::close_of_peer(connection& c, std::uint32_t number) noexcept {
  auto& accepted = c.at_core.rails->of_peer;
  const auto found = std::find_if(accepted.begin(), accepted.end(),
                                  [&](const auto& a) { return a.number == number; });
  if (found == accepted.end()) return;
  close(found->ep);
  accepted.erase(found);
}

void rail_connector::connection_down(connection& c) noexcept {
  if (!c.at_core.rails) return;
  for (rail& r : c.at_core.rails->rails) {
    const bool is_up = r.now == rail::state::up || (r.now == rail::state::failing && r.was_up);
    if (r.ep && is_up) count_down(r);
    close(r.ep);
  }
  for (auto& a : c.at_core.rails->of_peer) close(a.ep);
  c.at_core.rails->of_peer.clear();
}

void rail_connector::send(connection& c, wire::kind what, std::uint32_t number) {
  wire::rail_fields fields{};
  fields.number = number;
  parts_.channel.send_control(c, what, 0, fields, sizeof fields);
}

bool rail_connector::progress(connection& c) {
  rail_set& set = *c.at_core.rails;
  const auto now = clock_.now();
  tell_of_ends(c);
  if ((set.is_wanted || set.asks_early) && !std::exchange(set.has_asked, true))
    send_names(c, wire::kind::ask_rails);
  bool any_connecting = false;
  for (std::size_t place = 1; place < set.rails.size(); ++place) {
    rail& r = set.rails[place];
    if (r.now == rail::state::down && set.is_wanted && !set.places.empty()) connect(c, place);
    const bool is_overdue =
        r.now == rail::state::connecting && now - r.asked_at >= rail_attempt_limit;
    if (is_overdue) parts_.scheduler.fail(c, r);
    if (r.now == rail::state::failing) close_failing(c, r);
    any_connecting = any_connecting || r.now == rail::state::connecting;
  }
  if (!set.places.empty()) set.is_wanted = false;
  return any_connecting;
}

void rail_connector::pause(connection& c) noexcept {
  c.at_core.rails->asks_from = clock_.now() + settings_.pause;
}

void rail_connector::connect(connection& c, std::size_t place) {
  rail& r = c.at_core.rails->rails[place];
  r.number = ++c.at_core.rails->last_number;
  const int ret = request(c, r, place);
  if (ret == 0) {
    r.now = rail::state::connecting;
    r.asked_at = clock_.now();
    return;
  }
  GAUDI_INFO(EP_CTRL, "cannot make rail %zu to %s: %s\n", place, c.remote->name.to_string().c_str(),
             fi_strerror(-ret));
  close(r.ep);
  pause(c);
}

int rail_connector::request(connection& c, rail& r, std::size_t place) {
  r.route = place == c.session.route ? 0 : static_cast<std::uint8_t>(place);
  const route by = route_of(c, settings_, r.route);
  const net_address& to = *by.to;
  core_connector& connector = parts_.connections.connector();
  r.nic = by.nic();
  r.peer_nic = by.peer_nic;
  const core::unique_info info =
      by.from ? connector.info_for(to, by.from->at, r.nic) : connector.info_for(to);
  if (!info) return -FI_ENOMEM;
  const base::cancellation_deferred until_it_has_begun;
  auto ep = connector.create_endpoint(*info, nullptr, r.nic);
  if (!ep) return ep.code();
  by_endpoint_[&(*ep)->fid] = {c.id, r.number, false};
  r.ep = std::move(*ep);
  if (const auto enabled = connector.enable(r.ep.get(), r.nic); !enabled) return enabled.code();
  const hello h = hello_of_rail(parts_.connections.instance(), c.id, c.terms.connection_id,
                                r.number, parts_.connections.name());
  return fi_connect(r.ep.get(), to.raw(), &h, sizeof h);
}

// Also where it was never up here: the peer may have accepted it.
void rail_connector::close_failing(connection& c, rail& r) {
  const auto place = static_cast<std::size_t>(&r - c.at_core.rails->rails.data());
  close(r.ep);
  r.now = rail::state::lost;
  r.peer_has_closed = false;
  if (r.was_up) {
    count_down(r);
    ++parts_.paths.rails.lost;
    if (rail_counters* const own = settings_.counters_of(r.route)) ++own->lost;
    if (r.route == c.session.route)
      GAUDI_INFO(EP_CTRL, "rail %zu to %s leaves its link to the connection\n", place,
                 c.remote->name.to_string().c_str());
    else
      parts_.reports.rail_lost(c, place);
  } else {
    GAUDI_INFO(EP_CTRL, "no answer to rail %zu to %s\n", place, c.remote->name.to_string().c_str());
  }
  send(c, wire::kind::rail_lost, r.number);
}

void rail_connector::is_down(connection& c, rail& r) noexcept {
  r.now = rail::state::down;
  pause(c);
}

// To another NIC a session goes only where both ends say so.
void rail_connector::connection_up(connection& c) {
  const auto is_of_own_nic = [](const rail_interface& one) { return one.nic == nullptr; };
  const bool has_other_routes =
      settings_.count > 1 &&
      (settings_.others.empty() || c.session.may_move ||
       std::any_of(settings_.others.begin(), settings_.others.end(), is_of_own_nic));
  if (!has_other_routes || !c.session.is_kept || c.shm) return;
  if (!c.at_core.rails) c.at_core.rails = std::make_unique<rail_set>(settings_.count);
  c.at_core.rails->asks_early = true;
  parts_.scheduler.look_at(c);
}

void rail_connector::resumed(connection& c) noexcept {
  if (!c.at_core.rails) return;
  auto& rails = c.at_core.rails->rails;
  for (auto r = rails.begin() + 1; r != rails.end(); ++r)
    if (r->route == c.session.route) parts_.scheduler.fail(c, *r);
}

void rail_connector::arrived(connection& c, const buffer& b, std::size_t length, wire::kind what) {
  if (what == wire::kind::rail_names || what == wire::kind::ask_rails)
    return names_came(c, b, length, what);
  wire::rail_fields fields;
  if (!parse(b, length, fields)) return parts_.connections.malformed(c, "packet (rails)");
  if (what == wire::kind::rail_lost) {
    if (c.at_core.rails) close_of_peer(c, fields.number);
    return send(c, wire::kind::rail_closed, fields.number);
  }
  rail* const r = c.at_core.rails ? find(*c.at_core.rails, fields.number) : nullptr;
  if (!r) return;
  // Where it is not known to be lost here: then the peer is asked, as for any other.
  if (r->now != rail::state::lost) return parts_.scheduler.fail(c, *r);
  r->peer_has_closed = true;
  parts_.scheduler.look_at(c);
}

void rail_connector::names_came(connection& c, const buffer& b, std::size_t length,
                                wire::kind what) {
  wire::rail_names_fields names{};
  constexpr std::size_t fixed = offsetof(wire::rail_names_fields, places);
  std::memcpy(&names, b.bytes, std::min(length, sizeof names));
  const bool is_whole = length >= fixed && names.count != 0 && names.count <= wire::max_rails &&
                        length >= fixed + names.count * sizeof(wire::rail_place);
  if (!is_whole || !take_names(c, names)) return parts_.connections.malformed(c, "packet (rails)");
  if (what == wire::kind::ask_rails) return send_names(c, wire::kind::rail_names);
  c.at_core.rails->has_answer = c.at_core.rails->has_asked;
}

// False: they make no sense. Who has told of some keeps to them.
bool rail_connector::take_names(connection& c, const wire::rail_names_fields& names) {
  if (!c.at_core.rails) c.at_core.rails = std::make_unique<rail_set>(settings_.count);
  rail_set& set = *c.at_core.rails;
  if (!set.places.empty()) return true;
  std::vector<peer_place> all;
  for (const wire::rail_place& one : std::span(names.places, names.count)) {
    const net_address name = from_wire(one.name).with_scope(c.remote->name.scope());
    if (!name.is_destination() || one.nic >= wire::max_rails) return false;
    all.push_back(
        {name,
         static_cast<std::uint8_t>(one.nic),
         {one.fence_address, one.fence_key, one.fence_address ? sizeof(std::uint64_t) : 0}});
  }
  set.places = std::move(all);
  parts_.scheduler.look_at(c);
  return true;
}

void rail_connector::send_names(connection& c, wire::kind what) {
  if (places_.empty()) listen_at_others();
  wire::rail_names_fields fields{};
  fields.count = static_cast<std::uint32_t>(places_.size());
  std::copy(places_.begin(), places_.end(), fields.places);
  parts_.channel.send_control(
      c, what, 0, fields,
      offsetof(wire::rail_names_fields, places) + fields.count * sizeof(wire::rail_place));
}

// Without a fence at the first NIC its peers do without rails that end there while they need one.
void rail_connector::listen_at_others() {
  wire::rail_place first{};
  first.name = to_wire(parts_.connections.name());
  static_cast<void>(tell_fence(nullptr, first));
  places_.push_back(first);
  for (const auto& [at, nic, interface] : settings_.others) {
    wire::rail_place place{};
    const auto name = tell_fence(nic, place) ? parts_.connections.connector().listen_also(at, nic)
                                             : base::result<net_address>(base::error{-FI_ENOMEM});
    if (name) {
      place.name = to_wire(*name);
      places_.push_back(place);
    } else {
      GAUDI_WARN(EP_CTRL, "cannot listen for rails at %s (%s): %s\n", at.to_string().c_str(),
                 interface.c_str(), fi_strerror(-name.code()));
    }
  }
}

// False: the NIC has none.
bool rail_connector::tell_fence(reg::other_nic* nic, wire::rail_place& place) {
  place.nic = nic ? static_cast<std::uint32_t>(nic->number()) : 0;
  if (is_stream_) return true;
  const write_fence::cell* const cell = parts_.fences.cell_at(nic);
  if (!cell) return false;
  place.fence_address = reinterpret_cast<std::uint64_t>(&cell->bytes);
  place.fence_key = cell->mr.key();
  return true;
}

}  // namespace gaudi::proto
