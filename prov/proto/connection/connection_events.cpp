// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the core tells of connections: requests of peers, answers to ours, ends.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "proto/connection/connection_manager.hpp"

namespace gaudi::proto {
namespace {

// Between requests that the peer refuses because it has made one itself.
constexpr base::clock::duration min_pause = std::chrono::milliseconds(1);
constexpr base::clock::duration max_pause = std::chrono::milliseconds(100);

// The same order at every endpoint, whatever the machine.
bool precedes(const net_address& a, const net_address& b) noexcept {
  hello x{};
  hello y{};
  set_address(x, a);
  set_address(y, b);
  return std::memcmp(&x.family, &y.family, sizeof(hello) - offsetof(hello, family)) < 0;
}

// Whether the peer may have asked before it knew of the connection: it will find it made. Where
// ours was the request, one of the peer's can have crossed it; any other says that the peer has
// lost the connection, of whose end the core here may never hear.
bool is_older(connection& c, const hello& remote_hello) noexcept {
  if (c.terms.instance != remote_hello.instance) return false;
  if (remote_hello.connection == c.terms.connection_id) return true;
  return c.handshake.requested_here && !std::exchange(c.handshake.crossed, true);
}

// Where the connection's peer has said that it takes rails, and so may ask from.
bool is_other_address_of(const connection& c, const net_address& from) noexcept {
  if (!c.at_core.rails) return false;
  const auto& places = c.at_core.rails->places;
  return std::any_of(places.begin(), places.end(),
                     [&](const peer_place& one) { return one.name.is_same_host(from); });
}

// A connection ends for a request only if that comes from where its peer is, as far as the core
// tells: anybody can say a peer's name. `resumed`: it is to go on with that one, or null.
bool is_from_its_host(const fi_info& info, const hello& remote_hello,
                      const connection* resumed = nullptr) noexcept {
  if (!info.dest_addr) return true;
  const net_address from(info.dest_addr, info.dest_addrlen);
  if (from.empty() || from.is_same_host(address_of(remote_hello))) return true;
  if (resumed && is_other_address_of(*resumed, from)) return true;
  GAUDI_INFO(EP_CTRL, "refused a request of %s in the name of %s, which is connected\n",
             from.to_string().c_str(), address_of(remote_hello).to_string().c_str());
  return false;
}

// Whether another process has answered, which has one of the peer's other addresses now: that says
// nothing of the peer. Where it has the address that is the peer's name the peer is gone.
bool is_of_another_process(const connection& c, const hello* answer) noexcept {
  return c.session.route != 0 && (!answer || answer->instance != c.terms.instance);
}

// Whether the answer is of the session's other end: whoever else has the address now is not.
bool resumes(const connection& c, const hello* answer) noexcept {
  return answer && (answer->flags & wire::resumes) && answer->instance == c.terms.instance &&
         answer->connection == c.terms.connection_id;
}

// Each request of two that ask at once costs both a connection. The pause is of any length from its
// half on: where each of several has room for one more and asks the next, all would be refused
// again and again if they asked in step.
void pause_requests(peer& p, base::clock::time_point now, base::random_source random) noexcept {
  if (p.pause.count() == 0) p.asks_since = now;
  p.pause = std::clamp(2 * p.pause, min_pause, max_pause);
  const auto half = static_cast<std::uint64_t>((p.pause / 2).count());
  p.asks_from = now + p.pause - base::clock::duration(random.next() % half);
}

// After a request that was lost: what waits for a connection asks again after a pause, for as long
// as a session would.
bool may_ask_again(peer& p, base::clock::time_point now, std::chrono::seconds limit,
                   base::random_source random) noexcept {
  pause_requests(p, now, random);
  if (now - p.asks_since < limit) return true;
  p.pause = {};  // the next one begins from the start
  return false;
}

// What the kernel says of a connection that it cannot make, and the core of one that is refused.
bool is_an_answer(int error) noexcept {
  constexpr std::array answers{FI_ECONNREFUSED, FI_ETIMEDOUT, FI_EHOSTUNREACH,  FI_ENETUNREACH,
                               FI_ENETDOWN,     FI_EHOSTDOWN, FI_EADDRNOTAVAIL, FI_ENOPROTOOPT,
                               FI_EACCES,       FI_EPERM,     FI_ENOMEM};
  return std::find(answers.begin(), answers.end(), error) != answers.end();
}

// Whether it was the link that ended the request, not the peer. Over a stream that can have any
// other error: where an answer does not come whole the core tells of what errno happened to be
// (libfabric 2.1, xnet_cm.c, xnet_recv_cm_msg).
bool is_lost_on_the_way(const connection& c, int error, bool over_rdma) noexcept {
  const bool is_of_link = error == FI_ECONNRESET || error == EPIPE || error == FI_ENOTCONN ||
                          error == FI_EIO || (!over_rdma && error != 0 && !is_an_answer(error));
  return c.state == connection_state::connecting && is_of_link;
}

}  // namespace

void connection_manager::poll_if_due() {
  const auto now = config_.clock.now();
  observer_.time_passed(now);
  pacer_.clock_was_read(now);
  if (being_made_ == 0) {
    if (!pacer_.is_look_due(now)) return;
    // The word on a shm channel does not come by the core.
    if (!shm_.awaits_any()) pacer_.slow_down();
  }
  poll_now();
  pacer_.start_over();
}

void connection_manager::poll_now(bool core_may_tell) {
  pacer_.may_sleep();
  connections_.free_removed();
  if (core_may_tell) {
    shm_.accept_pending();
    read_events();
  }
  if (limits_.apply(being_made_ != 0))
    limits_.look(connections_, being_made_ != 0, config_.clock.now(),
                 [this](connection& c) { fail(c, FI_ETIMEDOUT); });
  if (reconnects_.any())
    reconnects_.poll([this](connection& c, int error) { lost_soon(c, error); },
                     [this](connection& c) { fail_soon(c, c.session.interruption.error); });
  do {
    // The core tells of the end by another way than of messages, and it can be the faster one: a
    // peer that sends, sees it completed and closes must not take its last words back. More may
    // come while these end; their last words are not heard yet.
    if (shm_.awaits_any())
      shm_.settle(connections_, ends_, [this](connection& c) { now_usable(c); });
    if (!ends_.empty()) observer_.connections_ending();
    ends_.take([this](std::uint32_t id, int error, bool final) {
      if (connection* const c = find(id)) end(*c, error, final);
    });
    for (peer_request& request : requests_.take()) take_request(std::move(request));
  } while (!ends_.empty());
}

void connection_manager::end(connection& c, int error, bool final) {
  if (!final && is_lost_on_the_way(c, error, over_rdma_) &&
      may_ask_again(*c.remote, config_.clock.now(), config_.limits.reconnect_timeout,
                    config_.random))
    return drop(c);
  if (final || !reconnector::may_go_on(c)) return fail(c, error);
  const bool was_up = c.usable();
  const bool was_interrupted = c.is_interrupted();
  reconnects_.interrupt(c, error);
  if (was_interrupted) return;
  c.session.is_confirmed = was_up;
  if (!was_up) return;
  ++being_made_;
  observer_.session_changed(c);
}

bool connection_manager::confirm_connected(connection& c) {
  read_events();
  if (c.state == connection_state::reaccepting) c.state = connection_state::resuming;
  const bool is_unconfirmed =
      c.state == connection_state::accepting || (c.is_interrupted() && !c.session.is_confirmed);
  if (is_unconfirmed) {
    c.handshake.is_answered = true;
    if (shm_.is_settled_or_awaited(c)) now_usable(c);
  }
  return c.usable();
}

void connection_manager::read_events() {
  while (connector_.read_next(*this)) pacer_.event_came();
}

void connection_manager::request_came(core::unique_info info, reg::other_nic* at,
                                      wire::reject_reason verdict, const hello& remote_hello) {
  const bool is_acceptable = verdict == wire::reject_reason::none;
  if (is_acceptable && (remote_hello.flags & wire::is_rail) && connector_.rails())
    return connector_.rails()->requested(*info, at, remote_hello);
  // First connections are the domain's own NIC's.
  if (is_acceptable && at && !(remote_hello.flags & wire::resumes))
    return opener_.reject(*info, wire::reject_reason::malformed);
  if (is_acceptable) return take_request({std::move(info), remote_hello, at});
  GAUDI_WARN(EP_CTRL, "refused a connection request: %s (ours is version %u, the peer's %u)\n",
             to_string(verdict), wire::version, remote_hello.version);
  opener_.reject(*info, verdict);
}

// Not at once: completions may be on their way through us, and theirs is the first turn.
void connection_manager::endpoint_ended(const fid* endpoint) {
  if (connection* const c = connections_.of(endpoint)) return lost_soon(*c, FI_ECONNRESET);
  if (connector_.rails()) connector_.rails()->ended(endpoint);
}

void connection_manager::take_request(peer_request&& request) {
  try {
    handle_request(std::move(request));
  } catch (const std::bad_alloc&) {
    if (request.info) opener_.reject(*request.info, wire::reject_reason::resources);
  }
}

// The request is moved from when it is kept.
void connection_manager::handle_request(peer_request&& request) {
  fi_info& info = *request.info;
  const hello& remote_hello = request.remote_hello;
  const net_address from = address_of(remote_hello);
  if (from.empty()) return opener_.reject(info, wire::reject_reason::malformed);
  if (remote_hello.flags & wire::resumes) return handle_resumption(std::move(request));
  peer& p = peers_.named(from);
  connection* c = p.current;
  if (!c && room_.is_full(connections_.count()))
    return opener_.reject(info, wire::reject_reason::simultaneous);
  if (!c) return accept(p, info, remote_hello);

  const bool self = remote_hello.instance == instance_;
  if (self) return accept(p, info, remote_hello);

  if (c->state == connection_state::connecting) {
    // Both decide by the same rule, so exactly one request goes on.
    if (precedes(from, name())) return opener_.reject(info, wire::reject_reason::simultaneous);
    drop(*c);
    return accept(p, info, remote_hello);
  }
  meet_request(*c, std::move(request));
}

// A request of a peer that there is a connection with.
void connection_manager::meet_request(connection& c, peer_request&& request) {
  if (reconnector::may_go_on(c) && c.terms.instance == request.remote_hello.instance) {
    // A request that was lost on its way, and made again, can come even after the next one has been
    // accepted. Where the peer has no session any more it says so when it is asked to go on.
    if (!c.is_interrupted() && !is_older(c, request.remote_hello) &&
        is_from_its_host(*request.info, request.remote_hello))
      lost_soon(c, FI_ECONNRESET);
    return opener_.reject(*request.info, wire::reject_reason::simultaneous);
  }
  const bool closed = ends_.contains(c.id) || c.closing.agreed;
  if (!closed &&
      (is_older(c, request.remote_hello) || !is_from_its_host(*request.info, request.remote_hello)))
    return opener_.reject(*request.info, wire::reject_reason::simultaneous);
  // Two processes have asked in the peer's name before the answer to one is confirmed. One of them
  // has gone, and it may be either, as requests can be late. Where it was that one's, the
  // connection ends by itself.
  const bool is_unconfirmed = !closed && c.state == connection_state::accepting;
  if (is_unconfirmed && requests_.defer_until_confirmed(c.id, request)) return;
  if (is_unconfirmed || (!closed && request.waits_for == c.id))
    return opener_.reject(*request.info, wire::reject_reason::simultaneous);
  // It has closed that one, or another process has its address now: only the end here is late. Its
  // last words come first, and this may be called in the middle of some.
  requests_.defer(std::move(request));
  fail_soon(c, FI_ECONNRESET);
}

// The peer has lost the core connection of a session, and asks for another one.
void connection_manager::handle_resumption(peer_request&& request) {
  fi_info& info = *request.info;
  const hello& remote_hello = request.remote_hello;
  connection* const c = find(wire::resumed(remote_hello));
  const bool is_known = c && c->terms.instance == remote_hello.instance &&
                        c->terms.connection_id == remote_hello.connection &&
                        c->remote->name == address_of(remote_hello) &&
                        is_from_its_host(info, remote_hello, c);
  const bool is_to_move = request.at || wire::nic_of(remote_hello) != 0;
  if (!is_known || !reconnector::may_go_on(*c) || (is_to_move && !c->may_move()))
    return opener_.reject(info, wire::reject_reason::no_session);
  const bool ours_goes_on =
      c->state == connection_state::reconnecting && precedes(address_of(remote_hello), name());
  const bool core_has_some =
      c->state == connection_state::interrupted && !c->at_core.posted.empty();
  if (ours_goes_on || core_has_some) return opener_.reject(info, wire::reject_reason::simultaneous);
  if (c->state != connection_state::interrupted) {
    // The end here is only late, or an attempt has failed that is not known to have: what has come
    // before that comes first.
    requests_.defer(std::move(request));
    return lost_soon(*c, FI_ECONNRESET);
  }
  reconnects_.begin_attempt(*c, false);
  // Whoever does not know this end's addresses cannot have another one.
  c->session.route = c->at_core.rails ? wire::route_of(remote_hello) : 0;
  c->take_nics(request.at, wire::nic_of(remote_hello));
  const int ret = opener_.answer(*c, info, remote_hello);
  if (ret == 0) return;
  // Else the end of the endpoint refuses it.
  if (!c->ep) opener_.reject(info, wire::reject_reason::resources);
  lost_soon(*c, -ret);
}

void connection_manager::endpoint_up(const fid* endpoint, const hello* remote_hello) {
  connection* const c = connections_.of(endpoint);
  if (!c && connector_.rails()) connector_.rails()->up(endpoint);
  if (!c) return;
  try {
    if (c->state == connection_state::connecting) return take_answer(*c, remote_hello);
    if (c->state == connection_state::reconnecting) {
      if (is_of_another_process(*c, remote_hello)) return lost_soon(*c, FI_ECONNREFUSED);
      if (!resumes(*c, remote_hello)) return fail_soon(*c, c->session.interruption.error);
      c->state = connection_state::resuming;
      return observer_.session_changed(*c);
    }
    // A core can say this of a peer that has given its request up: it has sent the answer, and what
    // is sent behind it is lost. The peer's first packet tells, or its word that it shares the
    // channel, which it would not have without the answer.
    if (c->state == connection_state::accepting && c->shm && shm_.is_settled_or_awaited(*c) &&
        c->shm)
      now_usable(*c);
  } catch (const std::bad_alloc&) {
    fail_soon(*c, FI_ENOMEM);
  }
}

void connection_manager::take_answer(connection& c, const hello* remote_hello) {
  if (!remote_hello) return fail(c, FI_ECONNABORTED);
  opener_.take_terms(c, *remote_hello);
  c.data.start(remote_hello->data_window, static_cast<std::uint16_t>(c.data.granted()));
  c.control.start(remote_hello->control_window, wire::control_window);
  if (remote_hello->flags & wire::shares_memory) shm_.take_or_refuse(c, *remote_hello);
  now_usable(c);
}

void connection_manager::endpoint_failed(const fid* endpoint, wire::reject_reason verdict,
                                         const hello& remote_hello, int error) {
  connection* const c = connections_.of(endpoint);
  if (!c && connector_.rails()) connector_.rails()->ended(endpoint);
  if (!c) return;
  if (verdict == wire::reject_reason::wrong_version) {
    GAUDI_WARN(
        EP_CTRL,
        "%s refused the connection: it speaks wire version %u, this is %u; use one release of the "
        "gaudi provider everywhere\n",
        c->remote->name.to_string().c_str(), remote_hello.version, wire::version);
  }
  const auto why = static_cast<wire::reject_reason>(remote_hello.reason);
  if (c->is_interrupted()) {
    if (reconnects_.is_final(*c, verdict, remote_hello, error))
      return fail_soon(*c, c->session.interruption.error);
    return lost_soon(*c, error == 0 ? FI_ECONNRESET : error);
  }
  if (verdict == wire::reject_reason::none && why == wire::reject_reason::simultaneous) {
    // The peer's own request makes the connection; if it does not, a later operation asks again.
    pause_requests(*c->remote, config_.clock.now(), config_.random);
    drop(*c);
    return;
  }
  const bool wrong_version =
      verdict == wire::reject_reason::wrong_version || why == wire::reject_reason::wrong_version;
  if (c->usable() || (!wrong_version && is_lost_on_the_way(*c, error, over_rdma_)))
    return lost_soon(*c, c->usable() ? FI_ECONNRESET : error);
  fail(*c, wrong_version || error == 0 ? FI_ECONNREFUSED : error);
}

}  // namespace gaudi::proto
