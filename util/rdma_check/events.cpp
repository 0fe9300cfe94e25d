// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "events.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "failure.hpp"

namespace gaudi::rdma_check {

void fail_with_errno(const std::string& what) {
  throw failure(exit_code::no_connection, fmt::format("{}: {}", what, std::strerror(errno)));
}

void require_rdma_device() {
  struct free_list {
    void operator()(ibv_device** list) const { ibv_free_device_list(list); }
  };
  int count = 0;
  const std::unique_ptr<ibv_device*, free_list> list(ibv_get_device_list(&count));
  if (!list || count == 0)
    throw failure(exit_code::no_connection,
                  "no RDMA device on this machine: load the NIC's driver and install its part of "
                  "rdma-core (ibverbs-providers)");
}

event_channel::event_channel() : channel_(rdma_create_event_channel()) {
  if (!channel_)
    fail_with_errno("no RDMA connection manager on this machine (kernel module rdma_ucm)");
  // For waits that end: librdmacm passes over some events itself and reads on.
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    fail_with_errno("the connection manager's descriptor");
}

id_ptr event_channel::make_id() const {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
    fail_with_errno("rdma_create_id");
  return id_ptr(id);
}

void event_channel::adopt(rdma_cm_id* id) const {
  if (rdma_migrate_id(id, channel_.get()) != 0) fail_with_errno("rdma_migrate_id");
}

event_ptr event_channel::next(std::optional<std::chrono::milliseconds> limit) const {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + limit.value_or(std::chrono::milliseconds{0});
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) == 0) return event_ptr(event);
    if (errno != EAGAIN && errno != EINTR) fail_with_errno("the connection manager");
    int wait_ms = -1;
    if (limit) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
      if (left <= 0) return nullptr;
      wait_ms = static_cast<int>(left);
    }
    pollfd ready{channel_->fd, POLLIN, 0};
    ::poll(&ready, 1, wait_ms);
  }
}

std::string describe(const rdma_cm_event& event) {
  // A negative status is an errno; others are numbers of the fabric.
  const std::string why = event.status < 0   ? std::strerror(-event.status)
                          : event.status > 0 ? fmt::format("reason {}", event.status)
                                             : "";
  const char* name = rdma_event_str(event.event);
  return why.empty() ? name : fmt::format("{}, {}", name, why);
}

}  // namespace gaudi::rdma_check
