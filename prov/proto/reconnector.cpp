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
constexpr std::chrono::milliseconds attempt_limit{1000};

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
    how.asks_from = c.handshake.requested_here ? now : now + pause_of_the_other;
    interrupted_.push_back(c.id);
  } else {
    how.asks_from = std::max(how.asks_from, now + pause_between);
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
bool reconnector::is_final(connection& c, wire::reject_reason verdict, wire::reject_reason why,
                           int error) noexcept {
  if (c.state != connection_state::reconnecting) return false;
  if (verdict != wire::reject_reason::none) return error == FI_ECONNREFUSED;
  const bool is_busy =
      why == wire::reject_reason::simultaneous || why == wire::reject_reason::resources;
  if (is_busy) c.session.interruption.asks_from = clock_.now() + pause_between;
  return !is_busy;
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
  return c.state != connection_state::interrupted && now - c.handshake.made_at >= attempt_limit;
}

}  // namespace gaudi::proto
