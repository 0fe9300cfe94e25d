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

void log_cma_state(const connection& c) {
  const ipc::shm_channel& l = *c.shm;
  GAUDI_INFO(EP_CTRL, "%s is on this host: messages go through shared memory%s%s\n",
             c.remote->name.to_string().c_str(),
             l.cma() ? ", long ones in one copy"
                     : ", long ones too, as the kernel keeps the peer's memory from us: ",
             l.cma() ? "" : fi_strerror(-l.cma_errno()));
}

}  // namespace

void connection_manager::open_fd_listener() {
  auto opened = ipc::fd_listener::open(instance_);
  if (!opened) {
    GAUDI_WARN(EP_CTRL, "no memory is shared with peers on this host: %s (FI_GAUDI_IPC)\n",
               fi_strerror(-opened.code()));
    return;
  }
  fd_listener_ = std::move(*opened);
  host_ = ipc::host_identity();
}

ipc::shm_channel::config connection_manager::shm_config(const connection& c) const noexcept {
  return {.largest_packet = c.eager_limit,
          .sleeps = waitable_,
          .slots = config_.slots,
          .slot_size = config_.slot_size};
}

// Where it comes to nothing the core carries the packets.
void connection_manager::offer_shm(connection& c, const hello& remote_hello) {
  if (host_ == 0 || remote_hello.host != host_) return;
  const ipc::fd_handshake_id to{.to_instance = remote_hello.instance,
                                .from_instance = instance_,
                                .to_connection = remote_hello.connection,
                                .from_connection = c.id};
  auto made = ipc::shm_channel::make(to, shm_config(c));
  if (made) {
    c.shm = std::move(*made);
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
bool connection_manager::attach_shm(connection& c, const hello& remote_hello) {
  if (!fd_listener_) return false;
  const ipc::fd_handshake_id to{.to_instance = instance_,
                                .from_instance = remote_hello.instance,
                                .to_connection = c.id,
                                .from_connection = remote_hello.connection};
  auto brought = fd_listener_->take(to);
  if (!brought) {
    GAUDI_WARN(EP_CTRL,
               "shared memory disabled for the connection with %s: its descriptor did not arrive "
               "(raise ulimit -n if descriptors are used up; FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str());
    return false;
  }
  auto taken = ipc::shm_channel::take(std::move(*brought), shm_config(c));
  if (!taken) {
    GAUDI_WARN(EP_CTRL, "shared memory disabled for the connection with %s: %s (FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str(), fi_strerror(-taken.code()));
    return false;
  }
  c.shm = std::move(*taken);
  log_cma_state(c);
  return true;
}

// False: the peer has said nothing yet. After a no the core carries the packets, those of the peer,
// too.
bool connection_manager::shm_is_settled(connection& c) {
  const auto agreed = c.shm->agreed();
  if (!agreed) return false;
  if (*agreed) {
    log_cma_state(c);
  } else {
    GAUDI_INFO(EP_CTRL, "%s is on this host, but did not take the memory to share\n",
               c.remote->name.to_string().c_str());
    c.shm.reset();
  }
  return true;
}

int connection_manager::send_dmabuf(const connection& c, std::uint64_t allocation, int fd) {
  const base::cancellation_deferred until_it_is_sent;
  const ipc::fd_handshake_id to{.to_instance = c.remote_instance,
                                .from_instance = instance_,
                                .to_connection = c.remote_id,
                                .from_connection = c.id,
                                .payload_id = allocation};
  return ipc::send_fd(to, fd).code();
}

base::scoped_fd connection_manager::import_from_peer(const connection& c,
                                                     std::uint64_t allocation) {
  if (!fd_listener_) return {};
  const base::cancellation_deferred until_it_is_here;
  const ipc::fd_handshake_id to{.to_instance = instance_,
                                .from_instance = c.remote_instance,
                                .to_connection = c.id,
                                .from_connection = c.remote_id,
                                .payload_id = allocation};
  auto brought = fd_listener_->take(to);
  return brought ? std::move(brought->memory) : base::scoped_fd();
}

void connection_manager::stop_sharing() {
  fd_listener_.reset();
  host_ = 0;
}

void connection_manager::settle_shm() {
  std::erase_if(awaiting_shm_, [this](std::uint32_t id) {
    connection* const c = find(id);
    if (!c || c->usable()) return true;
    if (!shm_is_settled(*c)) return c->state != connection_state::accepting;
    now_usable(*c);
    return true;
  });
}

}  // namespace gaudi::proto
