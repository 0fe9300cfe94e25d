// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the core tells of connections: requests of peers, answers to ours, ends.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "proto/connection_manager.hpp"

namespace gaudi::proto {
namespace {

// A look at the core's events is a system call. They come in swarms, or not for long.
constexpr auto max_interval = std::chrono::milliseconds(5);

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
  if (c.remote_instance != remote_hello.instance) return false;
  if (remote_hello.connection == c.remote_id) return true;
  return c.requested_here && !std::exchange(c.crossed, true);
}

// A connection ends for a request only if that comes from where its peer is, as far as the core
// tells: anybody can say a peer's name.
bool is_from_its_host(const fi_info& info, const hello& remote_hello) noexcept {
  if (!info.dest_addr) return true;
  const net_address from(info.dest_addr, info.dest_addrlen);
  if (from.empty() || from.is_same_host(address_of(remote_hello))) return true;
  GAUDI_INFO(EP_CTRL, "refused a request of %s in the name of %s, which is connected\n",
             from.to_string().c_str(), address_of(remote_hello).to_string().c_str());
  return false;
}

// Each request of two that ask at once costs both a connection.
void pause_requests(peer& p, base::clock::time_point now) noexcept {
  p.pause = std::clamp(2 * p.pause, min_pause, max_pause);
  p.asks_from = now + p.pause;
}

}  // namespace

void connection_manager::poll_if_due() {
  const auto now = config_.clock.now();
  observer_.time_passed(now);
  idle_polls_ = 0;
  if (being_made_ == 0) {
    if (now - last_poll_ < interval_) return;
    last_poll_ = now;
    // The word on a shm channel does not come by the core.
    if (awaiting_shm_.empty())
      interval_ = std::min<base::clock::duration>(2 * interval_, max_interval);
  }
  poll_now();
  idle_polls_ = 0;
}

void connection_manager::poll_now() {
  // Who asks for this may sleep now, and the first poll after that asks for the time.
  idle_polls_ = polls_per_clock - 1;
  graveyard_.clear();
  if (fd_listener_) fd_listener_->accept_pending();
  read_events();
  if (!awaiting_shm_.empty()) settle_shm();
  limit_handshakes();
  while (!closing_.empty()) {
    end_shut();
    for (peer_request& request : std::exchange(deferred_requests_, {}))
      take_request(std::move(request));
  }
}

// The core tells of the end by another way than of messages, and it can be the faster one: a peer
// that sends, sees it completed and closes must not take its last words back.
void connection_manager::end_shut() {
  observer_.connections_ending();
  // More may come while these end; their last words are not heard yet.
  const std::size_t count = closing_.size();
  for (std::size_t i = 0; i < count; ++i)
    if (connection* c = find(closing_[i].id)) fail(*c, closing_[i].error);
  closing_.erase(closing_.begin(), closing_.begin() + static_cast<std::ptrdiff_t>(count));
}

bool connection_manager::is_ending(const connection& c) const noexcept {
  return std::any_of(closing_.begin(), closing_.end(),
                     [&](const ending& e) { return e.id == c.id; });
}

// Every connection has a place there (add).
void connection_manager::fail_soon(connection& c, int error) noexcept {
  if (c.state != connection_state::failed && !is_ending(c)) closing_.push_back({c.id, error});
}

void connection_manager::malformed(connection& c, const char* what) {
  GAUDI_WARN(EP_DATA, "%s sent a malformed %s: the connection is closed\n",
             c.remote->name.to_string().c_str(), what);
  fail(c, FI_ECONNABORTED);
}

bool connection_manager::confirm_connected(connection& c) {
  read_events();
  // The peer is sending, so it has our answer: only the core's report of that is late.
  if (c.state == connection_state::accepting) handle_connected(c, nullptr);
  return c.usable();
}

void connection_manager::read_events() {
  if (!events_) return;
  alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 256];
  auto& entry = *reinterpret_cast<fi_eq_cm_entry*>(space);
  for (;;) {
    std::uint32_t event = 0;
    // libfabric 1.17 takes a socket that has ended for one that has nothing yet, and keeps it,
    // where an earlier call left EAGAIN here (tcpx_conn_mgr.c, rx_cm_data).
    errno = 0;
    const ssize_t got = fi_eq_read(events_.get(), &event, space, sizeof space, 0);
    if (got != -FI_EAGAIN) interval_ = min_interval;
    if (got == -FI_EAVAIL) {
      handle_error();
      continue;
    }
    if (got < static_cast<ssize_t>(sizeof entry)) return;
    const std::size_t length = static_cast<std::size_t>(got) - sizeof entry;
    hello h{};
    switch (event) {
      case FI_CONNREQ: {
        core::unique_info info(entry.info);
        const auto verdict = check_hello(entry.data, length, h);
        if (verdict == wire::reject_reason::none) {
          take_request({std::move(info), h});
        } else {
          GAUDI_WARN(EP_CTRL,
                     "refused a connection request: %s (ours is version %u, the peer's %u)\n",
                     to_string(verdict), wire::version, h.version);
          reject(*info, verdict);
        }
        break;
      }
      case FI_CONNECTED:
        if (connection* c = of(entry.fid)) {
          const bool valid = check_hello(entry.data, length, h) == wire::reject_reason::none;
          connected_or_end(*c, valid ? &h : nullptr);
        }
        break;
      case FI_SHUTDOWN:
        // Not at once: completions may be on their way through us, and theirs is the first turn.
        if (connection* c = of(entry.fid)) fail_soon(*c, FI_ECONNRESET);
        break;
      default:
        break;
    }
  }
}

// Before the end: libfabric 1.17 forgets the socket of a request that is not answered by then,
// which stays open, and the peer goes on waiting. One look accepts it, and the next reads it.
void connection_manager::refuse_unread() noexcept {
  if (!events_) return;
  constexpr unsigned max_looks = 1024;  // whoever makes many more of them meanwhile
  alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 256];
  const auto& entry = *reinterpret_cast<const fi_eq_cm_entry*>(space);
  unsigned empty = 0;
  for (unsigned looks = 0; looks < max_looks && empty < 2; ++looks) {
    std::uint32_t event = 0;
    errno = 0;
    const ssize_t got = fi_eq_read(events_.get(), &event, space, sizeof space, 0);
    empty = got == -FI_EAGAIN ? empty + 1 : 0;
    if (got == -FI_EAVAIL) {
      fi_eq_err_entry unread{};
      fi_eq_readerr(events_.get(), &unread, 0);
    } else if (got >= static_cast<ssize_t>(sizeof entry) && event == FI_CONNREQ) {
      const core::unique_info info(entry.info);
      reject(*info, wire::reject_reason::resources);
    }
  }
}

void connection_manager::take_request(peer_request&& request) {
  try {
    handle_request(std::move(request));
  } catch (const std::bad_alloc&) {
    if (request.info) reject(*request.info, wire::reject_reason::resources);
  }
}

// The request is moved from when it is kept.
void connection_manager::handle_request(peer_request&& request) {
  fi_info& info = *request.info;
  const hello& remote_hello = request.remote_hello;
  const net_address from = address_of(remote_hello);
  if (from.empty()) return reject(info, wire::reject_reason::malformed);
  peer& p = peer_named(from);
  connection* c = p.current;
  if (!c) return accept(p, info, remote_hello);

  const bool self = remote_hello.instance == instance_;
  if (self) return accept(p, info, remote_hello);

  if (c->state == connection_state::connecting) {
    // Both decide by the same rule, so exactly one request goes on.
    if (precedes(from, name_)) return reject(info, wire::reject_reason::simultaneous);
    drop(*c);
    return accept(p, info, remote_hello);
  }
  meet_request(*c, std::move(request));
}

// A request of a peer that there is a connection with.
void connection_manager::meet_request(connection& c, peer_request&& request) {
  const bool closed = is_ending(c) || c.closing.agreed;
  if (!closed &&
      (is_older(c, request.remote_hello) || !is_from_its_host(*request.info, request.remote_hello)))
    return reject(*request.info, wire::reject_reason::simultaneous);
  // It has closed that one, or another process has its address now: only the end here is late. Its
  // last words come first, and this may be called in the middle of some.
  deferred_requests_.push_back(std::move(request));
  fail_soon(c, FI_ECONNRESET);
}

void connection_manager::connected_or_end(connection& c, const hello* remote_hello) noexcept {
  try {
    handle_connected(c, remote_hello);
  } catch (const std::bad_alloc&) {
    fail_soon(c, FI_ENOMEM);
  }
}

void connection_manager::handle_connected(connection& c, const hello* remote_hello) {
  if (c.state == connection_state::connecting) {
    if (!remote_hello) return fail(c, FI_ECONNABORTED);
    take_terms(c, *remote_hello);
    c.data.start(remote_hello->data_window, static_cast<std::uint16_t>(c.data.granted()));
    c.control.start(remote_hello->control_window, wire::control_window);
    if ((remote_hello->flags & wire::shares_memory) && !attach_shm(c, *remote_hello)) {
      // A handshake id that is still on its way is answered with no by this.
      stop_sharing();
      c.refused_shm = true;
    }
  }
  if (c.usable()) return;
  if (c.shm && c.state == connection_state::accepting && !shm_is_settled(c)) {
    const bool waits = c.state == connection_state::accepting;
    if (waits && !std::exchange(c.up_in_core, true)) awaiting_shm_.push_back(c.id);
    return;
  }
  now_usable(c);
}

void connection_manager::now_usable(connection& c) {
  --being_made_;
  c.state = connection_state::connected;
  c.times.heard = true;
  c.remote->pause = {};
  observer_.connection_up(c);
}

void connection_manager::handle_error() {
  // Newer releases write more of the entry than this version declares.
  union {
    fi_eq_err_entry entry;
    std::byte space[256];
  } error{};
  std::byte data[256];
  error.entry.err_data = data;
  error.entry.err_data_size = sizeof data;
  if (fi_eq_readerr(events_.get(), &error.entry, 0) < 0) return;
  connection* c = of(error.entry.fid);
  if (!c) return;

  hello h{};
  const auto verdict = error.entry.err_data
                           ? check_hello(error.entry.err_data, error.entry.err_data_size, h)
                           : wire::reject_reason::malformed;
  if (verdict == wire::reject_reason::wrong_version) {
    GAUDI_WARN(
        EP_CTRL,
        "%s refused the connection: it speaks wire version %u, this is %u; use one release of the "
        "gaudi provider everywhere\n",
        c->remote->name.to_string().c_str(), h.version, wire::version);
  }
  const auto why = static_cast<wire::reject_reason>(h.reason);
  if (verdict == wire::reject_reason::none && why == wire::reject_reason::simultaneous) {
    // The peer's own request makes the connection; if it does not, a later operation asks again.
    pause_requests(*c->remote, config_.clock.now());
    drop(*c);
    return;
  }
  const bool wrong_version =
      verdict == wire::reject_reason::wrong_version || why == wire::reject_reason::wrong_version;
  if (c->usable()) return fail(*c, FI_ECONNRESET);
  fail(*c, wrong_version ? FI_ECONNREFUSED : (error.entry.err ? error.entry.err : FI_ECONNREFUSED));
}

}  // namespace gaudi::proto
