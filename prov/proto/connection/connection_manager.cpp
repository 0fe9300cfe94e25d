// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How connections are made and end.
#include "proto/connection/connection_manager.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"

namespace gaudi::proto {
namespace {

// Of a listener that closes, while others ask for connections.
constexpr unsigned max_last_looks = 3;

std::uint64_t random_instance(const base::random_source& source) {
  std::uint64_t value = 0;
  while (value == 0) value = source.next();
  return value;
}

std::uint32_t scope_of(const core::inner_domain& core) noexcept {
  return net_address(core.info().src_addr, core.info().src_addrlen).scope();
}

}  // namespace

connection_manager::connection_manager(core::inner_domain& core, const connection_config& config,
                                       connection_observer& observer)
    : config_(config),
      observer_(observer),
      credits_(core.over_rdma(), config.rx_buffers / 2),
      instance_(random_instance(config.random)),
      connector_(core),
      shm_({.instance = instance_,
            .kernel = config.kernel,
            .slots = config.slots,
            .slot_size = config.slot_size}),
      peers_(scope_of(core), observer),
      connections_(config.random),
      limits_(config.limits.connect_timeout),
      room_(config.limits.most, config.clock),
      opener_(config_, instance_, {connections_, connector_, credits_, shm_, observer}),
      reconnects_(connections_, opener_, session_routes(config.rails),
                  config.limits.reconnect_timeout, config.clock),
      over_rdma_(core.over_rdma()) {}

connection_manager::~connection_manager() {
  for (const peer_request& request : requests_.take())
    opener_.reject(*request.info, wire::reject_reason::resources);
  opener_.refuse_unread();
  for (const auto& c : connections_.all()) connections_.close_endpoint(*c);
  // The core frees what has ended once it has looked at it, and not at its own end. The look may
  // accept somebody else.
  for (unsigned looks = 0; looks < max_last_looks && limits_.let_go(); ++looks)
    opener_.refuse_unread();
}

base::result<void> connection_manager::listen(fid_cq* completions, fid_ep* shared_receives,
                                              bool waitable, bool any_port) {
  if (auto listens = connector_.listen(completions, shared_receives, waitable, any_port); !listens)
    return listens;
  if (!over_rdma_) limits_.watch_listener(name(), config_.clock.now());
  if (config_.kernel) shm_.open(waitable);
  return {};
}

base::result<connection*> connection_manager::get_connection(peer& p) {
  if (p.current && p.current->state == connection_state::connected) return p.current;
  if (const int error = std::exchange(p.last_error, 0)) return base::error{-error};
  if (!p.current) {
    if (p.pause.count() != 0 && config_.clock.now() < p.asks_from) return base::error{-FI_EAGAIN};
    if (room_.is_full(connections_.count())) return base::error{-FI_EAGAIN};
    if (const auto started = connect(p); !started) return started.failure();
  }
  return base::error{-FI_EAGAIN};
}

// What its end takes has room from the start. Throws std::bad_alloc, and then nothing has changed.
base::result<connection*> connection_manager::add(peer& p, connection_state s) {
  ends_.reserve(connections_.total() + 1);
  shm_.reserve(connections_.total() + 1);
  reconnects_.reserve(connections_.total() + 1);
  auto added = connections_.add(p, s);
  if (!added) return added;
  connection& c = **added;
  c.handshake.made_at = config_.clock.now();
  c.handshake.requested_here = s == connection_state::connecting;
  ++being_made_;
  return added;
}

base::result<void> connection_manager::connect(peer& p) {
  if (!connector_.listens()) return base::error{-FI_EOPBADSTATE};
  const base::cancellation_deferred until_it_has_begun;
  auto added = add(p, connection_state::connecting);
  if (!added) return added.failure();
  connection& c = **added;
  p.current = &c;
  base::result<void> request = base::error{-FI_ENOMEM};
  try {
    request = opener_.request(c);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (request) return request;
  GAUDI_WARN(EP_CTRL, "cannot connect to %s: %s%s\n", p.name.to_string().c_str(),
             fi_strerror(-request.code()),
             request.code() == -FI_EMFILE
                 ? " (raise RLIMIT_NOFILE, or lower FI_GAUDI_MAX_CONNECTIONS: each takes one "
                   "descriptor)"
                 : "");
  drop(c);
  return request;
}

// Its core connection may have been lost by then, where the peer's word on the channel or a packet
// tells that it was up: what the peer has sent is taken, whatever becomes of the session.
void connection_manager::now_usable(connection& c) {
  if (c.is_interrupted()) {
    c.session.is_confirmed = true;
  } else {
    --being_made_;
    c.state = connection_state::connected;
  }
  ++c.silence.packets;
  c.remote->pause = {};
  observer_.connection_up(c);
  if (c.state == connection_state::interrupted) observer_.session_changed(c);
}

void connection_manager::resumed(connection& c) {
  if (!c.session.is_confirmed) {
    c.state = connection_state::accepting;
    c.handshake.is_answered = true;
    // The peer's word on the channel, which no core connection carries, is still to come.
    if (c.shm && !shm_.is_settled_or_awaited(c)) return;
    return now_usable(c);
  }
  --being_made_;
  c.state = c.closing.is_wanted() ? connection_state::closing : connection_state::connected;
  c.remote->pause = {};
  observer_.session_changed(c);
}

// Takes the connection out of everything but the memory that callers up the stack still look at.
void connection_manager::drop(connection& c) {
  if (c.is_being_made() || c.is_interrupted()) --being_made_;
  connections_.close_endpoint(c);
  credits_.close(c);
  // What it was for ends next, and its memory is the application's again.
  if (c.shm) c.shm->leave();
  c.state = connection_state::failed;
  if (c.remote->current == &c) c.remote->current = nullptr;
  connections_.remove(c);
}

void connection_manager::malformed(connection& c, const char* what) {
  GAUDI_WARN(EP_DATA, "%s sent a malformed %s: the connection is closed\n",
             c.remote->name.to_string().c_str(), what);
  fail(c, FI_ECONNABORTED);
}

void connection_manager::fail(connection& c, int error) {
  if (c.state == connection_state::failed) return;
  const bool request = c.state == connection_state::connecting;
  const bool unconfirmed =
      c.state == connection_state::accepting || (c.is_interrupted() && !c.session.is_confirmed);
  drop(c);
  // Nothing was done on it, and what waits for a connection with the peer makes one.
  if (unconfirmed) return;
  GAUDI_INFO(EP_CTRL, "connection to %s is down: %s\n", c.remote->name.to_string().c_str(),
             c.closing.is_wanted()
                 ? "one end has no address of the other any more, or too many connections"
                 : fi_strerror(error));
  if (request && !c.remote->current) c.remote->last_error = error;
  observer_.connection_down(c, error);
}

void connection_manager::accept(peer& p, fi_info& info, const hello& remote_hello) {
  auto added = add(p, connection_state::accepting);
  if (!added) return opener_.reject(info, wire::reject_reason::resources);
  connection& c = **added;
  if (!p.current) p.current = &c;
  p.last_error = 0;
  opener_.take_terms(c, remote_hello);
  int ret = -FI_ENOMEM;
  try {
    ret = opener_.answer(c, info, remote_hello);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (!ret) return;
  GAUDI_WARN(EP_CTRL, "cannot accept the connection of %s: %s\n", p.name.to_string().c_str(),
             fi_strerror(-ret));
  // The core's endpoint has taken the request over, and refuses it by its end.
  if (!c.ep) opener_.reject(info, wire::reject_reason::resources);
  drop(c);
}

}  // namespace gaudi::proto
