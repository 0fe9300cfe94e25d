// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace gaudi::rdma_check {

/// An IP address with a port, as the connection manager takes it.
class address {
 public:
  /// Of a host name or a number. A failure (no_connection) for an unknown name.
  static address resolve(const std::string& host, std::uint16_t port);
  /// All addresses of this machine, of one family (AF_INET6 has those of IPv4 with it).
  static address any(int family, std::uint16_t port);

  /// Not const, as librdmacm's functions want it; none of them writes.
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }

 private:
  sockaddr_storage storage_{};
};

}  // namespace gaudi::rdma_check
