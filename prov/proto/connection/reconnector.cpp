// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/reconnector.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.hpp"

namespace gaudi::proto {
namespace {

// The end that asked for the first connection asks again at once. Should it not know of the loss,
// or not get here, the other one does.
constexpr std::chrono::milliseconds pause_of_the_other{50};
constexpr std::chrono::milliseconds pause_between{10};

/// How long an attempt may take. A request that was lost with a link is answered never, or late: a
/// new one is the faster way, or one over another route. But a peer that is far away, or busy,
/// needs longer, which it has after so many attempts: twice, and then twice again. Time in which
/// the application makes no progress does not count.
struct patience {
  std::chrono::milliseconds at_first;
  std::size_t attempts;
};
constexpr unsigned max_limit_doublings = 2;
constexpr std::uint32_t min_looks = 8;

patience patience_with(std::size_t routes) noexcept {
  using namespace std::chrono_literals;
  if (routes == 1) return {.at_first = 500ms, .attempts = 4};
  return {.at_first = 250ms, .attempts = routes};
}

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
    how.error = error;
    how.last_attempt = 0;
    how.from = c.session.route;
    how.failed = 0;
    const bool goes_home = std::exchange(how.goes_home, false);
    how.asks_from = c.handshake.requested_here || goes_home ? now : now + pause_of_the_other;
    // A link that is silent carries no request either.
    if (error == FI_ETIMEDOUT) c.session.route = routes_.next(c);
    if (goes_home) c.session.route = 0;
    interrupted_.push_back(c.id);
  } else {
    how.asks_from = std::max(how.asks_from, now + pause_between);
    if (!std::exchange(how.is_busy, false)) attempt_failed(c, error);
  }
  connections_.close_endpoint(c);
  c.state = connection_state::interrupted;
  c.session.has_said = false;
  c.session.has_heard = false;
  // Those of the last one are on their way back, and are not the next one's.
  ++c.receives.endpoint;
  c.receives.posted = 0;
}

void reconnector::attempt_failed(connection& c, int error) noexcept {
  auto& how = c.session.interruption;
  // There are many attempts, which mostly fail alike.
  if (std::exchange(how.last_attempt, error) != error)
    GAUDI_INFO(EP_CTRL, "the connection to %s cannot be made again yet: %s\n",
               c.remote->name.to_string().c_str(), fi_strerror(error));
  ++how.failed;
  c.session.route = routes_.next(c);
}

void reconnector::begin_attempt(connection& c, bool requested_here) noexcept {
  c.state = requested_here ? connection_state::reconnecting : connection_state::reaccepting;
  c.handshake.requested_here = requested_here;
  c.handshake.made_at = clock_.now();
  c.session.interruption.looks = 0;
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
  return !how.is_busy;
}

std::chrono::milliseconds reconnector::attempt_limit(const connection& c) const noexcept {
  const patience p = patience_with(routes_.count(c));
  const std::size_t doublings = c.session.interruption.failed / p.attempts;
  return p.at_first * (1 << std::min<std::size_t>(doublings, max_limit_doublings));
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
  return c.state != connection_state::interrupted && c.session.interruption.looks >= min_looks &&
         now - c.handshake.made_at >= attempt_limit(c);
}

}  // namespace gaudi::proto
