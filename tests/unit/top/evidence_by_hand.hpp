// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "why.hpp"

namespace gaudi::top::test {

namespace outstanding = base::outstanding;

inline constexpr std::uint64_t one_second = 1'000'000'000;
inline constexpr std::uint64_t now = 1000 * one_second;

inline outstanding::record record_of_peer(outstanding::record_kind kind, std::uint16_t port) {
  outstanding::record r{};
  r.kind = kind;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(r.address.data(), &name, sizeof name);
  r.instance = port;
  r.seen = now;
  r.device = -1;
  return r;
}

inline outstanding_view process_at(pid_t pid, std::uint16_t port) {
  return {pid, 'S', "app", {}, {}, {record_of_peer(outstanding::record_kind::endpoint, port)},
          0,   {}};
}

/// One operation of process 1, to the endpoint of process 2.
inline evidence waiting(outstanding::wait_reason why) {
  evidence known{process_at(1, 100), {process_at(1, 100), process_at(2, 200)}, now};
  outstanding::record r = record_of_peer(outstanding::record_kind::operation, 200);
  r.wait = why;
  r.total = 1 << 20;
  r.since = now - 12 * one_second;
  r.seen = r.since;
  r.type = 1;
  known.subject.operations.push_back(r);
  return known;
}

}  // namespace gaudi::top::test
