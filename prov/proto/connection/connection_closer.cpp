// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection_closer.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>

namespace gaudi::proto {

void connection_closer::not_needed(const peer& p) noexcept try {
  if (!p.current) return;
  list(*p.current);
  for (entry& e : listed_)
    if (e.id == p.current->id) e.is_surplus = false;
} catch (const std::bad_alloc&) {
  // It stays open, which costs no more than it did.
}

void connection_closer::close_surplus() noexcept try {
  const auto is_surplus = [](const entry& e) { return e.is_surplus; };
  const auto under_way = std::count_if(listed_.begin(), listed_.end(), is_surplus);
  const std::size_t left = connections_.count() - static_cast<std::size_t>(under_way);
  const std::size_t surplus = connection_room::surplus(most_, left);
  const auto now = clock_.now();
  if (now - looked_at_ < (surplus != 0 ? min_pause : pause_between_looks)) return;
  looked_at_ = now;
  for (connection* const c : lru_.choose(connections_, surplus))
    if (!is_listed(*c)) listed_.push_back({.id = c->id, .is_surplus = true});
} catch (const std::bad_alloc&) {
  // As many as there is memory for.
}

bool connection_closer::is_listed(const connection& c) const noexcept {
  return std::any_of(listed_.begin(), listed_.end(), [&](const entry& e) { return e.id == c.id; });
}

void connection_closer::list(const connection& c) {
  if (!is_listed(c)) listed_.push_back({.id = c.id});
}

bool connection_closer::waits_unnoticed() const noexcept {
  return std::any_of(listed_.begin(), listed_.end(), [this](const entry& e) {
    const connection* const c = connections_.find(e.id);
    return c && (c->closing.owes_answer || may_leave(*c));
  });
}

bool connection_closer::may_leave(const connection& c) noexcept {
  return c.state == connection_state::closing && c.closing.peer_agreed && c.is_idle();
}

void connection_closer::arrived(connection& c, wire::kind what) {
  switch (what) {
    case wire::kind::close_request:
      list(c);
      c.closing.owes_answer = true;
      return answer(c);
    case wire::kind::close_accept:
      c.closing.peer_agreed = c.closing.asked;
      return;
    default:
      c.closing.asked = false;
      // Once this end has agreed the peer counts on it, whatever it says of its own need.
      if (!c.closing.agreed && c.usable()) c.state = connection_state::connected;
  }
}

void connection_closer::answer(connection& c) {
  const bool agrees = c.closing.agreed || c.is_idle();
  if (sender_.send_header(c, agrees ? wire::kind::close_accept : wire::kind::close_refuse)) return;
  c.closing.owes_answer = false;
  if (!agrees) return;
  c.closing.agreed = true;
  // One that is interrupted, whose peer has asked by shared memory, closes once it is resumed.
  if (c.usable()) c.state = connection_state::closing;
}

void connection_closer::ask(connection& c, entry& e) {
  const auto now = clock_.now();
  if (now < e.asks_from) return;
  e.asks_from = now + e.pause;
  e.pause = std::min(2 * e.pause, max_pause);
  if (!c.is_idle() || sender_.send_header(c, wire::kind::close_request)) return;
  e.has_asked = true;
  c.closing.asked = true;
  c.state = connection_state::closing;
}

// Whether it need not be listed any more.
bool connection_closer::is_through(entry& e) {
  connection* const c = connections_.find(e.id);
  if (!c) return true;
  if (c->closing.owes_answer) answer(*c);
  if (c->state == connection_state::closing) {
    if (!may_leave(*c)) return false;
    // Where there is no room for it the peer asks, and is told so.
    static_cast<void>(sender_.send_header(*c, wire::kind::leave));
    connections_.fail(*c, FI_ECONNRESET);
    return true;
  }
  if (c->is_interrupted() && c->closing.is_wanted()) return false;
  const bool is_needed = e.is_surplus ? e.has_asked || !c->usable() || !c->is_idle()
                                      : c->remote->address != FI_ADDR_NOTAVAIL;
  if (!is_needed && c->usable()) ask(*c, e);
  return is_needed && !c->closing.owes_answer;
}

void connection_closer::poll() {
  if (++polls_ % polls_per_look != 0) return;
  std::erase_if(listed_, [this](entry& e) { return is_through(e); });
}

}  // namespace gaudi::proto
