// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/immediate_copies.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "base/make_room.hpp"
#include "device/device_registry.hpp"

namespace gaudi::proto {

bool immediate_copies::reaches(const transfer& t, std::uint64_t local,
                               std::uint64_t remote) noexcept {
  return t.connection->shm && t.connection->shm->cma() && !device::may_be_device_address(local) &&
         !device::may_be_device_address(remote);
}

void immediate_copies::disable_cma(connection& c, int why) noexcept {
  c.shm->disable_cma(why);
  GAUDI_INFO(EP_DATA,
             "the kernel keeps the memory of %s from us by now: %s (has the process given up "
             "privileges, or forbidden system calls?); long messages are copied twice\n",
             c.remote->name.to_string().c_str(), fi_strerror(-why));
}

bool immediate_copies::peer_is_there(const transfer& t) noexcept {
  return !t.connection || !t.connection->shm || !t.connection->shm->peer_is_gone();
}

// A peer that closes says so here before its application has its memory back. The core tells of
// the end of the connection later.
int immediate_copies::copy_once(const transfer& t, void* bytes, std::size_t length,
                                std::uint64_t remote) noexcept {
  ipc::shm_channel& on = *t.connection->shm;
  if (on.peer_is_gone()) return -FI_ECONNRESET;
  using copy::copy_router;
  const int ret = t.strategy == transfer_strategy::pull
                      ? copy_router::read_peer(*on.cma(), bytes, remote, length)
                      : copy_router::write_peer(*on.cma(), remote, bytes, length);
  // What was read may be something else's already.
  return on.peer_is_gone() ? -FI_ECONNRESET : ret;
}

int immediate_copies::copy_by_cma(const transfer& t, posted_op& w, void* bytes, std::size_t length,
                                  std::uint64_t remote) {
  if (!base::make_room(ended_)) return -FI_ENOMEM;
  const int ret = copy_once(t, bytes, length, remote);
  if (ipc::peer_process::is_denial(ret)) [[unlikely]] {
    disable_cma(*t.connection, ret);
    return -FI_EAGAIN;
  }
  core_.list(*t.connection, w);
  ended_.push_back({&w, -ret});
  return 0;
}

int immediate_copies::read_by_nic(const transfer& t, posted_op& w, void* bytes, void* descriptor,
                                  std::size_t length, const wire::segment& from) {
  if (!base::make_room(ended_)) return -FI_ENOMEM;
  const int ret = copies_.router().nic().read(bytes, descriptor, length, from.address, from.key);
  core_.list(*t.connection, w);
  ended_.push_back({&w, peer_is_there(t) ? -ret : FI_ECONNRESET});
  return 0;
}

}  // namespace gaudi::proto
