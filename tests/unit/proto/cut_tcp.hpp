// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "endpoint_node.hpp"
#include "unit/tcp_connections.hpp"

namespace gaudi::proto::test {

using gaudi::test::is_connection_of;

inline in_port_t port_of(const node& n) {
  return reinterpret_cast<const sockaddr_in*>(n.ep->name().raw())->sin_port;
}

/// Ends the connections between two endpoints. How many ends that were.
inline unsigned cut_tcp(const node& a, const node& b) {
  return gaudi::test::cut_connections_of({port_of(a), port_of(b)});
}

}  // namespace gaudi::proto::test
