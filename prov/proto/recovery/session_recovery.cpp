// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/session_recovery.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/make_room.hpp"
#include "proto/recovery/rma_operation.hpp"

namespace gaudi::proto {
namespace {

constexpr std::uint8_t max_tries = 16;
constexpr std::chrono::milliseconds pause_between_words{10};

bool is_behind(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b) > 0;
}

// Its payload was in the memory of a device that has been lost, which nobody has any more.
bool is_gone(const sent_packets::packet& p) noexcept {
  if (!p.whole) return false;
  const local_memory& gathered = p.whole->gathered;
  for (std::size_t i = 0; i < gathered.count(); ++i)
    if (!gathered[i].is_host() && !gathered[i].core_descriptor()) return true;
  return false;
}

}  // namespace

void session_recovery::reserve(std::size_t connections) {
  for (auto* list : {&resuming_, &redoing_}) base::reserve_ahead(*list, connections);
  base::reserve_ahead(owing_, connections);
}

bool session_recovery::arrived(connection& c, const wire::header& head) {
  session& s = c.session;
  if (head.what == wire::kind::resume) [[unlikely]] {
    // Of an attempt that is over, where it is not being resumed now.
    if (c.state == connection_state::resuming && !s.has_heard) {
      heard(c, head.received);
    } else if (!c.is_interrupted()) {
      parts_.connections.malformed(c, "packet (resume)");
    }
    return false;
  }
  if (head.number != s.received + 1) [[unlikely]] {
    if (head.number == 0 || is_behind(head.number, s.received))
      parts_.connections.malformed(c, "packet (number)");
    return false;
  }
  s.received = head.number;
  s.interruption.got_on = true;
  if (head.what != wire::kind::credit && !std::exchange(s.owes_word, true) &&
      !std::exchange(s.is_listed, true))
    owing_.push_back({c.id, s.received - 1});
  if (is_behind(s.packets.first(), head.received)) return true;
  if (!s.may_be_received(head.received)) {
    parts_.connections.malformed(c, "packet (of what it received)");
    return false;
  }
  acknowledge(c, head.received);
  return true;
}

void session_recovery::acknowledge(connection& c, std::uint32_t number, const buffer* but) {
  c.session.packets.forget_until(number, [&](buffer& b) {
    b.session.kept = false;
    if (!b.session.at_core && &b != but) message_left(b, 0);
  });
}

void session_recovery::message_left(buffer& b, int error) {
  const bool has_flushed = b.flushes;
  const auto operation = b.awaits;
  parts_.channel.sent(b, error);
  if (has_flushed) [[unlikely]]
    parts_.completion.fin_left(operation, error);
}

bool session_recovery::takes_back(posted_op& w, int& error) {
  connection* const c = w.connection;
  parts_.transport.unlist(w);
  if (w.what == posted_op::kind::message) static_cast<buffer&>(w).session.at_core = false;
  return c && c->session.is_kept && keeps(*c, w, error);
}

bool session_recovery::keeps(connection& c, posted_op& w, int& error) {
  const bool is_message = w.what == posted_op::kind::message;
  if (error == 0) {
    if (!is_message) {
      c.session.interruption.got_on = true;
      return false;
    }
    auto& b = static_cast<buffer&>(w);
    if (!b.session.kept) return false;
    if (parts_.transport.core().over_rdma()) {
      acknowledge(c, b.number, &b);
      return false;
    }
    // What it was gathered from is the application's when that is told.
    if (b.gathered.count() == 0) std::exchange(b.on_sent, {}).end({});
    return true;
  }
  // Else it is of the core endpoint before.
  if (c.usable()) parts_.connections.lost_soon(c, error);
  if (is_message) {
    if (static_cast<buffer&>(w).session.kept) return true;
    error = 0;  // the peer has said that it is there
    return false;
  }
  // A stream ends by whatever goes wrong on it.
  const bool is_lost = error == FI_ECONNRESET || !parts_.transport.core().over_rdma();
  if (!is_lost || is_over(w) || !reconnector::may_go_on(c)) return false;
  list_undone(c, w);
  return true;
}

// In the order in which they were posted, whatever the core says first.
void session_recovery::list_undone(connection& c, posted_op& w) noexcept {
  auto& undone = c.session.undone;
  auto place = undone.end();
  while (place != undone.begin() && is_behind(std::prev(place)->number, w.number)) --place;
  undone.insert(place, w);
}

void session_recovery::reconnected(connection& c) {
  resuming_.push_back(c.id);
}

void session_recovery::heard(connection& c, std::uint32_t received) {
  session& s = c.session;
  if (!s.may_be_received(received)) return parts_.connections.malformed(c, "packet (resume)");
  s.has_heard = true;
  s.next = received + 1;
  const bool any_came = received + 1 != s.packets.first();
  acknowledge(c, received);
  if (any_came || (s.packets.empty() && s.undone.empty() && s.to_redo.empty()))
    s.interruption.got_on = true;
  posted_op_list done;
  for (auto w = s.undone.begin(); w != s.undone.end();) {
    posted_op& op = *w++;
    if (!is_write(op) || !is_behind(received, op.number)) continue;
    s.undone.erase(s.undone.iterator_to(op));
    done.push_back(op);
  }
  while (!done.empty()) {
    posted_op& op = done.front();
    done.pop_front();
    parts_.mover.rma_ended(op, 0);
  }
  refuse_what_ends_connections(c);
  if (s.may_move) s.to_redo.splice(s.to_redo.end(), s.undone);
  if (!c.handshake.requested_here) resuming_.push_back(c.id);
}

// An operation that each connection is lost with is not the network's fault. The first one is it,
// as the others were behind it.
void session_recovery::refuse_what_ends_connections(connection& c) {
  auto& undone = c.session.undone;
  if (undone.empty() || ++undone.front().tries < max_tries) return;
  posted_op& first = undone.front();
  undone.pop_front();
  parts_.mover.rma_ended(first, c.session.interruption.error);
}

void session_recovery::progress() {
  std::erase_if(resuming_, [this](std::uint32_t id) {
    connection* const c = parts_.connections.find(id);
    if (!c || c->state != connection_state::resuming) return true;
    bool over = true;
    parts_.connections.on_behalf_of(c, [&] { over = is_through(*c); });
    return over;
  });
}

bool session_recovery::is_through(connection& c) {
  session& s = c.session;
  int ret = 0;
  if (!s.has_said) ret = say(c);
  if (ret == 0 && s.has_heard) ret = replay(c);
  if (ret == -FI_EAGAIN || (ret == 0 && !s.has_heard)) return false;
  if (ret) {
    parts_.connections.lost_soon(c, -ret);
  } else {
    list_to_redo(c);
    parts_.connections.resumed(c);
  }
  return true;
}

void session_recovery::list_to_redo(const connection& c) noexcept {
  if (c.session.to_redo.empty()) return;
  if (std::find(redoing_.begin(), redoing_.end(), c.id) == redoing_.end()) redoing_.push_back(c.id);
}

void session_recovery::posted_again(posted_op& w, int ret) {
  if (ret == 0) ++parts_.paths.again.rma;
  if (ret) parts_.mover.rma_ended(w, -ret);
}

int session_recovery::say(connection& c) {
  const int ret = parts_.transport.send_resume(c);
  c.session.has_said = ret == 0;
  return ret;
}

int session_recovery::replay(connection& c) {
  session& s = c.session;
  int ret = 0;
  s.packets.each_from(s.next, [&](const sent_packets::packet& p) {
    if (!s.may_move) ret = post_undone_before(c, p.number);
    if (ret == 0 && is_gone(p)) {
      // The peer takes packets only in their order, and this one never comes.
      parts_.connections.fail_soon(c, FI_EIO);
      ret = -FI_EAGAIN;
    }
    if (ret == 0) ret = parts_.transport.send_again(c, p);
    if (ret != 0) return false;
    ++parts_.paths.again.packets;
    s.next = p.number + 1;
    return true;
  });
  return ret || s.may_move ? ret : post_undone_before(c, s.sent + 1);
}

int session_recovery::post_undone_before(connection& c, std::uint32_t number) {
  session& s = c.session;
  while (!s.undone.empty() && is_behind(number, s.undone.front().number)) {
    posted_op& w = s.undone.front();
    s.undone.pop_front();
    const std::uint32_t behind = w.number;
    const std::uint8_t tries = w.tries;
    int ret = -FI_ECONNRESET;
    if (!is_over(w)) {
      s.is_replaying = true;
      ret = parts_.mover.post_again(w);
      s.is_replaying = false;
    }
    if (ret == -FI_EAGAIN) {
      s.undone.push_front(w);
      return ret;
    }
    w.number = behind;
    w.tries = tries;
    posted_again(w, ret);
  }
  return 0;
}

void session_recovery::connection_down(connection& c, int error) {
  session& s = c.session;
  s.packets.forget_until(s.sent, [&](buffer& b) {
    b.session.kept = false;
    if (!b.session.at_core) message_left(b, error);
  });
  parts_.mover.give_up(s.undone, error);
  parts_.mover.give_up(s.to_redo, error);
}

// Over a stream peers wait for the word before they tell of what they gathered. Over RDMA nobody
// waits for it: the peer can keep its short packets until it is sent a packet anyway, or sends
// none.
void session_recovery::send_words(base::clock::time_point now) {
  const bool is_urgent = !parts_.transport.core().over_rdma();
  if (!is_urgent) next_words_ = now + pause_between_words;
  std::erase_if(owing_, [this, is_urgent](owed_word& owed) {
    connection* const c = parts_.connections.find(owed.connection);
    if (!c) return true;
    session& s = c->session;
    const bool has_received = std::exchange(owed.received, s.received) != s.received;
    if (s.owes_word && !is_urgent && has_received) return false;
    if (s.owes_word && parts_.transport.send_header(*c, wire::kind::credit)) return false;
    s.is_listed = false;
    return true;
  });
}

}  // namespace gaudi::proto
