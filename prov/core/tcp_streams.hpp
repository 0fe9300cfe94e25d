// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>

#include "base/scoped_fd.hpp"

namespace gaudi::core {

/// What the kernel knows of the connections of the core's tcp provider, which gives no access to
/// its sockets and hears of a link that is down after a quarter of an hour (tcp(7), tcp_retries2).
/// The kernel is asked by their addresses, as ss(8) does: sock_diag(7), which needs no right.
///
/// Not thread safe: the caller holds the domain lock.
class tcp_streams {
 public:
  virtual ~tcp_streams() = default;

  /// For how long at least the peer's kernel has acknowledged nothing of what it was sent, again
  /// and again, on this connection. The peer's process has no part in that: a kernel acknowledges
  /// what it has room for. 0: it owes nothing, or the kernel here does not tell (a container
  /// without sock_diag, or a core that has no addresses).
  [[nodiscard]] virtual std::chrono::milliseconds unacknowledged_for(fid_ep& connection) noexcept;

 private:
  [[nodiscard]] bool ask(const sockaddr& here, const sockaddr& peer) noexcept;
  [[nodiscard]] std::chrono::milliseconds answer() const noexcept;

  base::scoped_fd kernel_;
  bool cannot_ask_ = false;
  std::uint32_t asked_ = 0;  // questions, whose answers have their numbers
};

}  // namespace gaudi::core
