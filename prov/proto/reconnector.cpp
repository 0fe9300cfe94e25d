// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/reconnector.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace gaudi::proto {
namespace {

// The end that asked for the first connection asks again at once. Should it not know of the loss,
// or not get here, the other one does.
constexpr std::chrono::milliseconds pause_of_the_other{50};
constexpr std::chrono::milliseconds pause_between{10};
// A request that was lost with a link is answered never, or late: a new one is the faster way.
constexpr std::chrono::milliseconds max_attempt{1000};
// With other routes to try, at first. A peer that is far away, or busy, has longer after each
// round.
constexpr std::chrono::milliseconds min_attempt{250};

// It has sent its answer, so the peer may have begun.
bool is_unconfirmed(const connection& c) noexcept {
  return c.state == connection_state::accepting;
}

}  // namespace

bool reconnector::may_go_on(const connection& c) noexcept {
  const session& s = c.session;
  return s.is_kept && !s.is_over && !c.closing.peer_agreed && c.remote->current == &c &&
         (c.usable() || c.is_interrupted() || is_unconfirmed(c));
}

void reconnector::interrupt(connection& c, int error) {
  auto& how = c.session.interruption;
  const auto now = clock_.now();
  if (!c.is_interrupted()) {
    // A connection that is made again and again, but carries nothing, is as good as none.
    const bool has_lasted = now - c.handshake.made_at >= timeout_;
    if (std::exchange(how.got_on, false) || has_lasted) how.since = now;
    how.at = now;
    how.error = error;
    how.from = c.session.route;
    how.failed = 0;
    how.asks_from = c.handshake.requested_here ? now : now + pause_of_the_other;
    // A link that is silent carries no request either.
    if (error == FI_ETIMEDOUT) c.session.route = routes_.next(c);
    interrupted_.push_back(c.id);
  } else {
    how.asks_from = std::max(how.asks_from, now + pause_between);
    if (!std::exchange(how.is_busy, false)) {
      ++how.failed;
      c.session.route = routes_.next(c);
    }
  }
  connections_.close_endpoint(c);
  c.state = connection_state::interrupted;
  c.session.has_said = false;
  c.session.has_heard = false;
  // Those of the last one are on their way back, and are not the next one's.
  ++c.receives.endpoint;
  c.receives.posted = 0;
}

void reconnector::begin_attempt(connection& c, bool requested_here) noexcept {
  c.state = requested_here ? connection_state::reconnecting : connection_state::reaccepting;
  c.handshake.requested_here = requested_here;
  c.handshake.made_at = clock_.now();
}

// Where nobody listens the peer has gone; a network that is down tells of other errors, or of none.
// Only the first route goes to the address that is the peer's name: at another one another process
// may listen by now, or none.
bool reconnector::is_final(connection& c, wire::reject_reason verdict,
                           const wire::hello& remote_hello, int error) noexcept {
  if (c.state != connection_state::reconnecting) return false;
  const bool is_first = c.session.route == 0;
  if (verdict != wire::reject_reason::none) return is_first && error == FI_ECONNREFUSED;
  if (!is_first && remote_hello.instance != c.terms.instance) return false;
  const auto why = static_cast<wire::reject_reason>(remote_hello.reason);
  auto& how = c.session.interruption;
  how.is_busy = why == wire::reject_reason::simultaneous || why == wire::reject_reason::resources;
  if (how.is_busy) how.asks_from = clock_.now() + pause_between;
  return !how.is_busy;
}

std::chrono::milliseconds reconnector::attempt_limit(const connection& c) const noexcept {
  const std::size_t routes = routes_.count(c);
  if (routes == 1) return max_attempt;
  constexpr std::size_t max_rounds = 2;  // until it is the longest
  const std::size_t rounds = std::min(c.session.interruption.failed / routes, max_rounds);
  return min_attempt * (1 << rounds);
}

// 0, or a positive FI_E*.
int reconnector::ask(connection& c) noexcept try {
  begin_attempt(c, true);
  const auto asked = opener_.request(c);
  return asked ? 0 : -asked.code();
} catch (const std::bad_alloc&) {
  return FI_ENOMEM;
}

std::vector<std::uint32_t> reconnector::listed() {
  std::erase_if(interrupted_, [this](std::uint32_t id) {
    const connection* const c = connections_.find(id);
    return !c || !c->is_interrupted();
  });
  return interrupted_;
}

bool reconnector::is_over(const connection& c, base::clock::time_point now) const noexcept {
  return now - c.session.interruption.since >= timeout_ || !may_go_on(c);
}

// The core has given all back that it had of the last one.
bool reconnector::may_ask(const connection& c, base::clock::time_point now) const noexcept {
  return c.state == connection_state::interrupted && c.at_core.posted.empty() &&
         now >= c.session.interruption.asks_from;
}

bool reconnector::is_overdue(const connection& c, base::clock::time_point now) const noexcept {
  return c.state != connection_state::interrupted && now - c.handshake.made_at >= attempt_limit(c);
}

}  // namespace gaudi::proto
