// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/connection_opener.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <utility>

#include "proto/connection/connection_observer.hpp"

namespace gaudi::proto {

base::result<void> connection_opener::open_endpoint(connection& c, fi_info& info) {
  reg::other_nic* const nic = c.nic();
  if (nic) {
    if (!config_.receives) return base::error{-FI_EOPNOTSUPP};
    const auto receives = parts_.connector.receive_at(*nic, *config_.receives);
    if (!receives) return receives;
  }
  auto created = parts_.connector.create_endpoint(info, &c, nic);
  if (!created) return created.failure();
  parts_.connections.set_endpoint(c, std::move(*created));
  if (auto enabled = parts_.connector.enable(c.ep.get(), nic); !enabled) return enabled;
  parts_.observer.connection_opened(c);
  return {};
}

hello connection_opener::own_hello(const connection* c, wire::reject_reason reason) const noexcept {
  hello h{};
  h.magic = wire::magic;
  h.version = wire::version;
  h.connection = c ? c->id : 0;
  h.eager_limit = config_.eager_limit;
  h.instance = instance_;
  h.control_window = wire::control_window;
  h.host = parts_.shm.host();
  h.reason = static_cast<std::uint8_t>(reason);
  if (config_.takes_dmabufs) h.flags |= wire::takes_dmabufs;
  if (config_.limits.reconnect_timeout.count() != 0) h.flags |= wire::keeps_session;
  if (config_.moves_sessions) h.flags |= wire::moves_sessions;
  if (c && c->is_interrupted()) h.flags |= wire::resumes;
  set_address(h, parts_.connector.name());
  return h;
}

base::result<void> connection_opener::request(connection& c) {
  const route by = routes_.current(c);
  const net_address& to = *by.to;
  c.take_nics(by.nic(), by.peer_nic);
  const core::unique_info info = by.from ? parts_.connector.info_for(to, by.from->at, by.nic())
                                         : parts_.connector.info_for(to);
  if (!info) return base::error{-FI_ENOMEM};
  if (const auto opened = open_endpoint(c, *info); !opened) return opened;
  hello h = own_hello(&c, wire::reject_reason::none);
  if (c.is_interrupted()) {
    wire::set_resumed(h, c.terms.connection_id);
    wire::set_way(h, c.session.route, by.nic() ? by.nic()->number() : 0);
  } else {
    h.data_window = parts_.credits.open(c);
    c.control.start(0, wire::control_window);
    c.data.start(0, h.data_window);
  }
  const int ret = fi_connect(c.ep.get(), to.raw(), &h, sizeof h);
  if (ret) return base::error{ret};
  return {};
}

int connection_opener::answer(connection& c, fi_info& info, const hello& remote_hello) {
  if (const auto opened = open_endpoint(c, info); !opened) return opened.code();
  hello h = own_hello(&c, wire::reject_reason::none);
  if (!c.is_interrupted()) {
    h.data_window = parts_.credits.open(c);
    parts_.shm.offer(c, remote_hello);
    if (c.shm) h.flags |= wire::shares_memory;
    c.data.start(remote_hello.data_window, h.data_window);
    c.control.start(remote_hello.control_window, wire::control_window);
  }
  return fi_accept(c.ep.get(), &h, sizeof h);
}

void connection_opener::reject(const fi_info& info, wire::reject_reason why) const noexcept {
  parts_.connector.reject(info, own_hello(nullptr, why));
}

void connection_opener::refuse_unread() noexcept {
  parts_.connector.refuse_unread(own_hello(nullptr, wire::reject_reason::resources));
}

// An endpoint's connection with itself has no wire to lose.
void connection_opener::take_terms(connection& c, const hello& remote_hello) const noexcept {
  c.take_terms(remote_hello, config_.eager_limit);
  c.session.is_kept = config_.limits.reconnect_timeout.count() != 0 &&
                      (remote_hello.flags & wire::keeps_session) &&
                      remote_hello.instance != instance_;
  c.session.may_move = c.session.is_kept && config_.moves_sessions &&
                       (remote_hello.flags & wire::moves_sessions) != 0;
}

}  // namespace gaudi::proto
