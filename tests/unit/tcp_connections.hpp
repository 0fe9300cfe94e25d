// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <initializer_list>

namespace gaudi::test {

/// Whether the descriptor is a tcp connection of one of these listeners, at either end.
inline bool is_connection_of(int fd, std::initializer_list<in_port_t> ports) {
  sockaddr_in ends[2]{};
  socklen_t length = sizeof ends[0];
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&ends[0]), &length) != 0) return false;
  length = sizeof ends[1];
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&ends[1]), &length) != 0) return false;
  for (const sockaddr_in& end : ends)
    for (const in_port_t port : ports)
      if (end.sin_family == AF_INET && end.sin_port == port) return true;
  return false;
}

/// Ends this process's connections of these listeners, as the kernel does it to both ends when the
/// network has gone for too long. How many ends that were.
inline unsigned cut_connections_of(std::initializer_list<in_port_t> ports) {
  unsigned ended = 0;
  for (int fd = 3; fd < 1024; ++fd)
    if (is_connection_of(fd, ports) && ::shutdown(fd, SHUT_RDWR) == 0) ++ended;
  return ended;
}

}  // namespace gaudi::test
