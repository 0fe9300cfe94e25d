// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/shm_negotiator.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"

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

void shm_negotiator::open(bool sleeps) {
  auto opened = config_.kernel->listen(config_.instance);
  if (!opened) {
    GAUDI_WARN(EP_CTRL, "no memory is shared with peers on this host: %s (FI_GAUDI_IPC)\n",
               fi_strerror(-opened.code()));
    return;
  }
  listener_ = std::move(*opened);
  host_ = config_.kernel->identity();
  sleeps_ = sleeps;
}

ipc::shm_channel::config shm_negotiator::channel_config(const connection& c) const noexcept {
  return {.largest_packet = c.terms.eager_limit,
          .sleeps = sleeps_,
          .slots = config_.slots,
          .slot_size = config_.slot_size,
          .kernel = config_.kernel};
}

void shm_negotiator::offer(connection& c, const hello& remote_hello) {
  if (host_ == 0 || remote_hello.host != host_) return;
  const ipc::fd_handshake_id to{.to_instance = remote_hello.instance,
                                .from_instance = config_.instance,
                                .to_connection = remote_hello.connection,
                                .from_connection = c.id};
  auto made = ipc::shm_channel::make(to, channel_config(c));
  if (made) {
    c.shm = std::move(*made);
    awaited_.push_back(c.id);
    return;
  }
  GAUDI_INFO(EP_CTRL, "%s is on this host, but shares no memory with us: %s%s\n",
             c.remote->name.to_string().c_str(), fi_strerror(-made.code()),
             made.code() == -FI_ECONNREFUSED ? " (is it in another network namespace?)"
             : made.code() == -FI_EACCES     ? " (another user's)"
                                             : "");
}

void shm_negotiator::take_or_refuse(connection& c, const hello& remote_hello) {
  if (take(c, remote_hello)) return;
  // A descriptor that is still on its way is answered with no by this.
  listener_.reset();
  host_ = 0;
}

// False: it did not come, or cannot be used.
bool shm_negotiator::take(connection& c, const hello& remote_hello) {
  if (!listener_) return false;
  const ipc::fd_handshake_id to{.to_instance = config_.instance,
                                .from_instance = remote_hello.instance,
                                .to_connection = c.id,
                                .from_connection = remote_hello.connection};
  auto brought = listener_->take(to);
  if (!brought) {
    GAUDI_WARN(EP_CTRL,
               "shared memory disabled for the connection with %s: its descriptor did not arrive "
               "(raise ulimit -n if descriptors are used up; FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str());
    return false;
  }
  auto taken = ipc::shm_channel::take(std::move(*brought), channel_config(c));
  if (!taken) {
    GAUDI_WARN(EP_CTRL, "shared memory disabled for the connection with %s: %s (FI_GAUDI_IPC)\n",
               c.remote->name.to_string().c_str(), fi_strerror(-taken.code()));
    return false;
  }
  c.shm = std::move(*taken);
  log_cma_state(c);
  return true;
}

bool shm_negotiator::is_settled_or_awaited(connection& c) {
  if (!c.shm || is_settled(c)) return true;
  c.handshake.awaits_shm = true;
  return false;
}

bool shm_negotiator::is_settled(connection& c) {
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

int shm_negotiator::send_dmabuf(const connection& c, std::uint64_t allocation, int fd) const {
  const base::cancellation_deferred until_it_is_sent;
  const ipc::fd_handshake_id to{.to_instance = c.terms.instance,
                                .from_instance = config_.instance,
                                .to_connection = c.terms.connection_id,
                                .from_connection = c.id,
                                .payload_id = allocation};
  return config_.kernel->send_fd(to, fd).code();
}

base::scoped_fd shm_negotiator::import_from_peer(const connection& c, std::uint64_t allocation) {
  if (!listener_) return {};
  const base::cancellation_deferred until_it_is_here;
  const ipc::fd_handshake_id to{.to_instance = config_.instance,
                                .from_instance = c.terms.instance,
                                .to_connection = c.id,
                                .from_connection = c.terms.connection_id,
                                .payload_id = allocation};
  auto brought = listener_->take(to);
  return brought ? std::move(brought->memory) : base::scoped_fd();
}

}  // namespace gaudi::proto
