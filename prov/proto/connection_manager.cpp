// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection_manager.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "base/make_room.hpp"
#include "core/tcp_listener.hpp"

namespace gaudi::proto {
namespace {

std::uint64_t random_instance(const base::random_source& source) {
  std::uint64_t value = 0;
  while (value == 0) value = source.next();
  return value;
}

// The listener's address and any port: the peer compares the first with what our hello says. Only
// an address of the loopback interface is no source for all destinations.
void set_source(fi_info& info, const net_address& name) noexcept {
  if (info.src_addr && !name.is_loopback()) {
    const net_address here = net_address(info.src_addr, info.src_addrlen).with_port(0);
    if (here.is_same_host(name)) {
      std::memcpy(info.src_addr, here.raw(), here.length());
      return;
    }
  }
  std::free(info.src_addr);
  info.src_addr = nullptr;
  info.src_addrlen = 0;
}

}  // namespace

connection_manager::connection_manager(core::inner_domain& core, config t,
                                       connection_observer& observer)
    : core_(core),
      config_(t),
      observer_(observer),
      credits_(core.over_rdma(), t.rx_buffers / 2),
      scope_(net_address(core.info().src_addr, core.info().src_addrlen).scope()),
      instance_(random_instance(t.random)),
      by_id_(t.random) {}

connection_manager::~connection_manager() {
  for (const peer_request& request : deferred_requests_)
    reject(*request.info, wire::reject_reason::resources);
  refuse_unread();
  for (auto& c : connections_) close_endpoint(*c);
}

base::result<void> connection_manager::listen(fid_cq* completions, fid_ep* shared_receives,
                                              bool waitable, bool any_port) {
  completions_ = completions;
  shared_receives_ = shared_receives;
  fid_eq* eq = nullptr;
  fi_eq_attr attr{};
  // Only where somebody sleeps: some releases of the tcp provider start a progress thread for it.
  attr.wait_obj = waitable ? FI_WAIT_FD : FI_WAIT_NONE;
  if (const int ret = fi_eq_open(core_.fabric(), &attr, &eq, nullptr)) return base::error{ret};
  core::unique_fid<fid_eq> events(eq);

  fid_pep* pep = nullptr;
  core::unique_fid<fid_pep> listener;
  const core::unique_info info(fi_dupinfo(&core_.info()));
  if (!info) return base::error{-FI_ENOMEM};
  if (any_port && info->src_addr) {
    const net_address here = net_address(info->src_addr, info->src_addrlen).with_port(0);
    std::memcpy(info->src_addr, here.raw(), here.length());
  }
  int ret = fi_passive_ep(core_.fabric(), info.get(), &pep, nullptr);
  if (!ret) {
    listener.reset(pep);
    ret = fi_pep_bind(pep, &eq->fid, 0);
  }
  if (!ret) ret = fi_listen(pep);
  if (ret) {
    GAUDI_WARN(EP_CTRL, "cannot listen for peers on %s: %s\n", info->domain_attr->name,
               fi_strerror(-ret));
    return base::error{ret};
  }
  sockaddr_storage address{};
  std::size_t length = sizeof address;
  if ((ret = fi_getname(&pep->fid, &address, &length))) return base::error{ret};
  name_ = net_address(&address, length);
  events_ = std::move(events);
  listener_ = std::move(listener);
  waitable_ = waitable;
  limits_silence_ = !core_.over_rdma() && core::limit_reads(name_.raw(), name_.length());
  next_silence_look_ = config_.clock.now();
  if (config_.ipc) open_fd_listener();
  return {};
}

peer& connection_manager::peer_named(const net_address& given) {
  const net_address name = scope_ != 0 ? given.with_scope(scope_) : given;
  if (const auto found = peers_by_name_.find(name); found != peers_by_name_.end())
    return *found->second;
  if (peers_.size() >= peers_to_look_at_) forget_unused_peers();
  auto added = std::make_unique<peer>();
  added->number = observer_.number_of(name);
  added->name = name;
  peers_by_name_.emplace(name, added.get());
  try {
    peers_.push_back(std::move(added));
  } catch (const std::bad_alloc&) {
    peers_by_name_.erase(name);
    throw;
  }
  return *peers_.back();
}

// The next look is due when as many have come again, so that a look costs each newcomer little.
void connection_manager::forget_unused_peers() {
  std::unordered_set<const peer*> connected;
  for (const auto* list : {&connections_, &graveyard_})
    for (const auto& c : *list) connected.insert(c->remote);
  std::erase_if(peers_, [&](const auto& p) {
    if (!p->is_unused() || connected.contains(p.get())) return false;
    observer_.forget_number_of(p->name);
    peers_by_name_.erase(p->name);
    return true;
  });
  peers_to_look_at_ = std::max(min_peers_to_look_at, 2 * peers_.size());
}

base::result<connection*> connection_manager::get_connection(peer& p) {
  if (p.current && p.current->state == connection_state::connected) return p.current;
  if (const int error = std::exchange(p.last_error, 0)) return base::error{-error};
  if (!p.current) {
    if (p.pause.count() != 0 && config_.clock.now() < p.asks_from) return base::error{-FI_EAGAIN};
    if (const auto started = connect(p); !started) return started.failure();
  }
  return base::error{-FI_EAGAIN};
}

// What its end takes has room from the start. Throws std::bad_alloc, and then nothing has changed.
base::result<connection*> connection_manager::add(peer& p, connection_state s) {
  auto c = std::make_unique<connection>(p, s);
  const std::size_t most = connections_.size() + graveyard_.size() + 1;
  if (!base::make_room(connections_)) return base::error{-FI_ENOMEM};
  if (graveyard_.capacity() < most) graveyard_.reserve(2 * most);
  if (closing_.capacity() < most) closing_.reserve(2 * most);
  if (awaiting_shm_.capacity() < most) awaiting_shm_.reserve(2 * most);
  c->id = by_id_.insert(c.get());
  if (c->id == by_id_.invalid) return base::error{-FI_ENOMEM};
  c->times.made_at = config_.clock.now();
  c->requested_here = s == connection_state::connecting;
  ++being_made_;
  connections_.push_back(std::move(c));
  return connections_.back().get();
}

base::result<void> connection_manager::open_endpoint(connection& c, fi_info& info) {
  info.ep_attr->rx_ctx_cnt = shared_receives_ ? FI_SHARED_CONTEXT : 1;
  // What the data mover takes for the limit of inline sends, whichever side the request came from.
  info.tx_attr->inject_size = core_.info().tx_attr->inject_size;
  fid_ep* ep = nullptr;
  int ret = fi_endpoint(core_.domain(), &info, &ep, &c);
  if (ret) return base::error{ret};
  c.ep.reset(ep);
  by_fid_.emplace(&ep->fid, &c);
  if ((ret = fi_ep_bind(ep, &events_->fid, 0))) return base::error{ret};
  // Injected messages complete silently, receives must not.
  if ((ret = fi_ep_bind(ep, &completions_->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION)))
    return base::error{ret};
  if ((ret = fi_ep_bind(ep, &completions_->fid, FI_RECV))) return base::error{ret};
  if (shared_receives_ && (ret = fi_ep_bind(ep, &shared_receives_->fid, 0)))
    return base::error{ret};
  if ((ret = fi_enable(ep))) return base::error{ret};
  observer_.connection_opened(c);
  return {};
}

hello connection_manager::own_hello(const connection* c) const noexcept {
  hello h{};
  h.magic = wire::magic;
  h.version = wire::version;
  h.connection = c ? c->id : 0;
  h.eager_limit = config_.eager_limit;
  h.instance = instance_;
  h.control_window = wire::control_window;
  h.host = host_;
  if (config_.takes_dmabufs) h.flags |= wire::takes_dmabufs;
  set_address(h, name_);
  return h;
}

base::result<void> connection_manager::connect(peer& p) {
  if (!events_) return base::error{-FI_EOPBADSTATE};
  const base::cancellation_deferred until_it_has_begun;
  auto added = add(p, connection_state::connecting);
  if (!added) return added.failure();
  connection& c = **added;
  p.current = &c;
  base::result<void> request = base::error{-FI_ENOMEM};
  try {
    request = request_connection(c);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (request) return request;
  GAUDI_WARN(
      EP_CTRL, "cannot connect to %s: %s%s\n", p.name.to_string().c_str(),
      fi_strerror(-request.code()),
      request.code() == -FI_EMFILE ? " (raise RLIMIT_NOFILE: each peer takes one descriptor)" : "");
  drop(c);
  return request;
}

base::result<void> connection_manager::request_connection(connection& c) {
  const net_address& to = c.remote->name;
  const core::unique_info info(fi_dupinfo(&core_.info()));
  if (!info) return base::error{-FI_ENOMEM};
  std::free(info->dest_addr);
  info->dest_addr = nullptr;
  info->dest_addrlen = 0;
  if (void* destination = std::malloc(to.length())) {
    std::memcpy(destination, to.raw(), to.length());
    info->dest_addr = destination;
    info->dest_addrlen = to.length();
  }
  set_source(*info, name_);

  if (const auto opened = open_endpoint(c, *info); !opened) return opened;
  hello h = own_hello(&c);
  h.data_window = credits_.open(c);
  c.control.start(0, wire::control_window);
  c.data.start(0, h.data_window);
  const int ret = fi_connect(c.ep.get(), to.raw(), &h, sizeof h);
  if (ret) return base::error{ret};
  return {};
}

void connection_manager::close_endpoint(connection& c) noexcept {
  if (!c.ep) return;
  by_fid_.erase(&c.ep->fid);
  c.ep.reset();
}

// Takes the connection out of everything but the memory that callers up the stack still look at.
void connection_manager::drop(connection& c) {
  if (c.state == connection_state::connecting || c.state == connection_state::accepting)
    --being_made_;
  close_endpoint(c);
  credits_.close(c);
  // What it was for ends next, and its memory is the application's again.
  if (c.shm) c.shm->leave();
  c.state = connection_state::failed;
  if (c.remote->current == &c) c.remote->current = nullptr;
  by_id_.erase(c.id);
  const auto place = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& owned) { return owned.get() == &c; });
  graveyard_.push_back(std::move(*place));
  std::swap(*place, connections_.back());
  connections_.pop_back();
}

void connection_manager::fail(connection& c, int error) {
  if (c.state == connection_state::failed) return;
  const bool request = c.state == connection_state::connecting;
  drop(c);
  GAUDI_INFO(
      EP_CTRL, "connection to %s is down: %s\n", c.remote->name.to_string().c_str(),
      c.closing.is_wanted() ? "one end has no address of the other any more" : fi_strerror(error));
  if (request && !c.remote->current) c.remote->last_error = error;
  observer_.connection_down(c, error);
}

connection* connection_manager::of(const fid* f) const noexcept {
  const auto found = by_fid_.find(f);
  return found == by_fid_.end() ? nullptr : found->second;
}

void connection_manager::accept(peer& p, fi_info& info, const hello& remote_hello) {
  auto added = add(p, connection_state::accepting);
  if (!added) return reject(info, wire::reject_reason::resources);
  connection& c = **added;
  if (!p.current) p.current = &c;
  p.last_error = 0;
  take_terms(c, remote_hello);
  int ret = -FI_ENOMEM;
  try {
    ret = answer_request(c, info, remote_hello);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (!ret) return;
  GAUDI_WARN(EP_CTRL, "cannot accept the connection of %s: %s\n", p.name.to_string().c_str(),
             fi_strerror(-ret));
  // The core's endpoint has taken the request over, and refuses it by its end.
  if (!c.ep) reject(info, wire::reject_reason::resources);
  drop(c);
}

int connection_manager::answer_request(connection& c, fi_info& info, const hello& remote_hello) {
  if (const auto opened = open_endpoint(c, info); !opened) return opened.code();
  hello h = own_hello(&c);
  h.data_window = credits_.open(c);
  offer_shm(c, remote_hello);
  if (c.shm) h.flags |= wire::shares_memory;
  c.data.start(remote_hello.data_window, h.data_window);
  c.control.start(remote_hello.control_window, wire::control_window);
  return fi_accept(c.ep.get(), &h, sizeof h);
}

void connection_manager::reject(fi_info& info, wire::reject_reason why) {
  hello h = own_hello(nullptr);
  h.reason = static_cast<std::uint8_t>(why);
  fi_reject(listener_.get(), info.handle, &h, sizeof h);
}

void connection_manager::take_terms(connection& c, const hello& remote_hello) {
  c.remote_id = remote_hello.connection;
  c.remote_instance = remote_hello.instance;
  c.eager_limit = std::min(remote_hello.eager_limit, config_.eager_limit);
  c.peer_takes_dmabufs = remote_hello.flags & wire::takes_dmabufs;
}

}  // namespace gaudi::proto
