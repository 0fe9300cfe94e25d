// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared memory with peers on this host, and dma-bufs for them. Who accepts a connection makes the
// segment and sends it before the answer to the request; who asked for the connection takes it
// before anything else, and says so. So a connection has its one way for packets before the first
// of them.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "ipc/host_identity.hpp"
#include "proto/connection_manager.hpp"

namespace gaudi::proto {
namespace {

void tell_of_reach(const connection& c) {
  const ipc::link& l = *c.link;
  GAUDI_INFO(EP_CTRL, "%s is on this host: messages go through shared memory%s%s\n",
             c.remote->name.to_string().c_str(),
             l.reach() ? ", long ones in one copy"
                       : ", long ones too, as the kernel keeps the peer's memory from us: ",
             l.reach() ? "" : fi_strerror(-l.why_not_reached()));
}

}  // namespace

void connection_manager::open_meeting_point() {
  auto opened = ipc::meeting_point::open(instance_);
  if (!opened) {
    GAUDI_WARN(EP_CTRL, "no memory is shared with peers on this host: %s (FI_GAUDI_IPC)\n",
               fi_strerror(-opened.code()));
    return;
  }
  meeting_point_ = std::move(*opened);
  host_ = ipc::host_identity();
}

ipc::link::terms connection_manager::link_terms(const connection& c) const noexcept {
  return {.largest_packet = c.eager_limit,
          .sleeps = waitable_,
          .slots = terms_.slots,
          .slot_size = terms_.slot_size};
}

// Where it comes to nothing the core carries the packets.
void connection_manager::offer_link(connection& c, const hello& said) {
  if (host_ == 0 || said.host != host_) return;
  const ipc::invitation to{.to_instance = said.instance,
                           .from_instance = instance_,
                           .to_connection = said.connection,
                           .from_connection = c.id};
  auto made = ipc::link::make(to, link_terms(c));
  if (made) {
    c.link = std::move(*made);
    return;
  }
  GAUDI_INFO(EP_CTRL, "%s is on this host, but shares no memory with us: %s%s\n",
             c.remote->name.to_string().c_str(), fi_strerror(-made.code()),
             made.code() == -FI_ECONNREFUSED ? " (is it in another network namespace?)"
             : made.code() == -FI_EACCES     ? " (another user's)"
                                             : "");
}

// False: the core carries this connection's packets. Nobody has put one into the segment yet, and
// the peer puts none there before our answer.
bool connection_manager::take_link(connection& c, const hello& said) {
  if (!meeting_point_) return false;
  const ipc::invitation to{.to_instance = instance_,
                           .from_instance = said.instance,
                           .to_connection = c.id,
                           .from_connection = said.connection};
  auto brought = meeting_point_->take(to);
  if (!brought) {
    GAUDI_WARN(EP_CTRL,
               "the memory to share with %s did not come (are there descriptors left?): this "
               "endpoint goes on without (FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str());
    return false;
  }
  auto taken = ipc::link::take(std::move(*brought), link_terms(c));
  if (!taken) {
    GAUDI_WARN(EP_CTRL,
               "cannot share memory with %s: %s: this endpoint goes on without (FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str(), fi_strerror(-taken.code()));
    return false;
  }
  c.link = std::move(*taken);
  tell_of_reach(c);
  return true;
}

// False: the peer has said nothing yet. After a no the core carries the packets, those of the peer,
// too.
bool connection_manager::link_is_settled(connection& c) {
  const auto said = c.link->agreed();
  if (!said) return false;
  if (*said) {
    tell_of_reach(c);
  } else {
    GAUDI_INFO(EP_CTRL, "%s is on this host, but did not take the memory to share\n",
               c.remote->name.to_string().c_str());
    c.link.reset();
  }
  return true;
}

int connection_manager::send_dmabuf(const connection& c, std::uint64_t allocation, int fd) {
  const base::cancellation_deferred until_it_is_sent;
  const ipc::invitation to{.to_instance = c.remote_instance,
                           .from_instance = instance_,
                           .to_connection = c.remote_id,
                           .from_connection = c.id,
                           .matter = allocation};
  return ipc::invite(to, fd).code();
}

base::scoped_fd connection_manager::take_dmabuf(const connection& c, std::uint64_t allocation) {
  if (!meeting_point_) return {};
  const base::cancellation_deferred until_it_is_here;
  const ipc::invitation to{.to_instance = instance_,
                           .from_instance = c.remote_instance,
                           .to_connection = c.id,
                           .from_connection = c.remote_id,
                           .matter = allocation};
  auto brought = meeting_point_->take(to);
  return brought ? std::move(brought->memory) : base::scoped_fd();
}

void connection_manager::stop_sharing() {
  meeting_point_.reset();
  host_ = 0;
}

void connection_manager::settle_links() {
  std::erase_if(undecided_, [this](std::uint32_t id) {
    connection* const c = find(id);
    if (!c || c->usable()) return true;
    if (!link_is_settled(*c)) return c->now != connection::state::accepting;
    now_usable(*c);
    return true;
  });
}

}  // namespace gaudi::proto
