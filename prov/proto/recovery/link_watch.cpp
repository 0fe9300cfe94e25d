// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/link_watch.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "proto/recovery/rma_operation.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;

// Looks in which nothing ends, until a connection is taken for lost: not one long pause of an
// application that makes no progress meanwhile.
constexpr int looks_at_least = 4;
// What even a wire that many share carries of one operation.
constexpr std::size_t bytes_per_millisecond = 100'000;
// Each connection that was lost with the same operation at its head gives it twice the time.
constexpr int max_doublings = 8;
// A thread that sleeps, and left nothing under way, looks so seldom whether another one has sent
// anything since.
constexpr int intervals_asleep = 16;

// Over a stream: first when the time is over, and then after twice as long each, up to these looks.
constexpr unsigned max_looks_between = 256;

bool is_time_to_send(unsigned looks) noexcept {
  if (looks >= max_looks_between) return looks % max_looks_between == 0;
  return looks >= looks_at_least && std::has_single_bit(looks);
}

// The kernel is asked when the time is over, then at each look for as long again, and more seldom
// than that later on, as is everything that takes a call of it for each of many connections.
bool is_time_to_ask(unsigned looks) noexcept {
  return looks >= looks_at_least && (looks < 4 * looks_at_least || looks % looks_at_least == 0);
}

// One that both ends agree to close goes on no more, but its last packets would be waited for.
bool is_watched(const connection& c) noexcept {
  return c.usable() && c.ep && (reconnector::may_go_on(c) || c.closing.peer_agreed);
}

// Whether anything was sent that nobody is told of, or something is to come.
bool may_be_lost(const connection& c) noexcept {
  return !c.transfers.empty() || c.session.sent != c.at_core.link.arrived;
}

}  // namespace

link_watch::link_watch(parts collaborators, const base::connection_limits& limits,
                       std::chrono::milliseconds home_pause, base::clock clock) noexcept
    : parts_(collaborators),
      is_stream_(!collaborators.transport.core().over_rdma()),
      timeout_(limits.link_timeout),
      interval_(std::max(timeout_ / looks_at_least, std::chrono::milliseconds(1))),
      next_(timeout_.count() != 0 && (is_stream_ || limits.reconnect_timeout.count() != 0)
                ? clock.now()
                : base::clock::time_point::max()),
      home_(collaborators.connections, collaborators.rails, home_pause) {}

base::result<int> link_watch::open_alarm() {
  if (next_ == base::clock::time_point::max()) return -1;
  auto alarm = base::alarm_fd::open();
  if (!alarm) return alarm.failure();
  alarm_ = std::move(*alarm);
  return alarm_.fd();
}

void link_watch::fall_asleep(bool alarm_runs) noexcept {
  if (is_stream_) return sleep_over_stream();
  const bool is_soon = any_in_use_ || parts_.transport.posted() != 0;
  const std::chrono::nanoseconds after = parts_.connections.count() == 0 ? 0ms
                                         : is_soon                       ? interval_
                                                   : intervals_asleep * interval_;
  // Each change is a system call, and one that comes too early only looks.
  const auto before = alarm_.was_set_to();
  const bool is_early = before != 0ns && before < after;
  if (!alarm_runs || (before != after && !is_early)) alarm_.set(after);
}

// Where nothing waits for a peer nobody is woken, nor is the kernel called.
void link_watch::sleep_over_stream() noexcept {
  const bool is_wanted = parts_.table.size() != 0 || parts_.direct.count() != 0;
  if (is_wanted || is_armed_) alarm_.set(is_wanted ? interval_ : std::chrono::milliseconds(0));
  is_armed_ = is_wanted;
}

void link_watch::look(base::clock::time_point now) noexcept {
  next_ = now + interval_;
  any_in_use_ = false;
  parts_.connections.for_each([this, now](connection& c) {
    if (is_stream_)
      look_at_stream(c, now);
    else if (is_watched(c))
      look_at(c, now);
  });
}

void link_watch::look_at_stream(connection& c, base::clock::time_point now) noexcept {
  auto& link = c.at_core.link;
  const bool was_heard = std::exchange(link.ended, c.silence.packets) != c.silence.packets;
  const bool is_waiting = !c.transfers.empty() || c.at_core.direct != 0 || !c.data.can_send();
  // A peer says seldom that it has received the last of what it was sent.
  const bool may_be_lost = is_waiting || !c.session.packets.empty();
  if (!c.usable() || !c.ep) {
    link.looks = 0;
    return;
  }
  if (c.at_core.rails) look_at_rails_over_stream(c, now);
  if (was_heard || !may_be_lost) {
    link.looks = 0;
    return;
  }
  ++link.looks;
  const bool is_time = is_time_to_send(link.looks);
  // Where there is no room the kernel has something to send.
  if (is_waiting && is_time) static_cast<void>(parts_.transport.send_header(c, wire::kind::credit));
  const bool shall_ask = is_waiting ? is_time_to_ask(link.looks) : is_time;
  if (shall_ask && reconnector::may_go_on(c) && parts_.routes.count(c) > 1 &&
      is_unacknowledged(c.ep.get()))
    parts_.connections.lost_soon(c, FI_ETIMEDOUT);
}

void link_watch::look_at_rails_over_stream(connection& c, base::clock::time_point now) noexcept {
  rail_set& set = *c.at_core.rails;
  for (auto r = set.rails.begin() + 1; r != set.rails.end(); ++r) {
    const bool is_busy = r->now == rail::state::up && !r->posted.empty();
    const bool got_on = std::exchange(r->link.ended, r->load.ended) != r->load.ended;
    r->link.looks = is_busy && !got_on ? r->link.looks + 1 : 0;
    if (is_time_to_ask(r->link.looks) && is_unacknowledged(r->ep.get())) parts_.rails.fail(c, *r);
  }
  for (auto& of_peer : set.of_peer) {
    if (of_peer.has_ended || now - of_peer.asked_at < timeout_) continue;
    of_peer.asked_at = now;
    of_peer.has_ended = is_unacknowledged(of_peer.ep.get());
    if (of_peer.has_ended) parts_.rails.look_at(c);
  }
}

bool link_watch::is_unacknowledged(fid_ep* ep) const noexcept {
  return parts_.streams && parts_.streams->unacknowledged_for(*ep) >= timeout_;
}

void link_watch::look_at(connection& c, base::clock::time_point now) noexcept {
  if (c.at_core.rails)
    for (rail& r : c.at_core.rails->rails) look_at(c, r);
  auto& at = c.at_core;
  const bool got_on = std::exchange(at.link.ended, at.ended) != at.ended;
  if (got_on) parts_.connections.on_behalf_of(&c, [&] { home_.look(c, now); });
  if (got_on || at.posted.empty()) at.link.looks = 0;
  if (at.posted.empty()) {
    if (may_be_lost(c)) post_probe(c);
    return;
  }
  any_in_use_ = true;
  if (is_too_long(++at.link.looks, at.posted.front()))
    parts_.connections.lost_soon(c, FI_ETIMEDOUT);
}

void link_watch::look_at(connection& c, rail& r) noexcept {
  if (std::exchange(r.link.ended, r.load.ended) != r.load.ended || r.posted.empty())
    r.link.looks = 0;
  if (r.now != rail::state::up || r.posted.empty()) return;
  any_in_use_ = true;
  if (is_too_long(++r.link.looks, r.posted.front())) parts_.rails.fail(c, r);
}

void link_watch::post_probe(connection& c) noexcept {
  any_in_use_ = true;
  posted_op* const probe = probes_.create(posted_op::kind::probe);
  if (probe && parts_.transport.post_probe(c, *probe)) probes_.destroy(probe);
}

bool link_watch::is_too_long(unsigned looks, const posted_op& first) const noexcept {
  const std::chrono::milliseconds limit =
      timeout_ + std::chrono::milliseconds(length_of(first) / bytes_per_millisecond);
  // The first look may have come right behind the operation.
  return (looks - 1) * interval_ >= limit * (1 << std::min<int>(first.tries, max_doublings));
}

void link_watch::ended(posted_op& probe, int error) noexcept {
  connection* const c = probe.connection;
  parts_.transport.unlist(probe);
  if (c && error == 0) c->at_core.link.arrived = probe.number;
  if (c && error != 0 && c->usable()) parts_.connections.lost_soon(*c, error);
  probes_.destroy(&probe);
}

}  // namespace gaudi::proto
