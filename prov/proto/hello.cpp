// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/hello.hpp"

#include <netinet/in.h>

#include <cstring>

namespace gaudi::proto {

wire::reject_reason check_hello(const void* bytes, std::size_t length, hello& out) noexcept {
  // magic and version stand first in every version, whatever follows.
  constexpr std::size_t fixed = offsetof(hello, reason);
  if (length < fixed) return wire::reject_reason::malformed;
  out = {};
  std::memcpy(&out, bytes, fixed);
  if (out.magic != wire::magic) return wire::reject_reason::malformed;
  if (out.version != wire::version) return wire::reject_reason::wrong_version;
  if (length < sizeof(hello)) return wire::reject_reason::malformed;
  std::memcpy(&out, bytes, sizeof(hello));
  if (out.reason == 0 && out.eager_limit < wire::min_message) return wire::reject_reason::malformed;
  return wire::reject_reason::none;
}

void set_address(hello& h, const net_address& name) noexcept {
  h.family = name.raw()->sa_family;
  if (name.raw()->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, name.raw(), sizeof in);
    h.port = in.sin_port;
    std::memcpy(h.address, &in.sin_addr, sizeof in.sin_addr);
  } else {
    sockaddr_in6 in{};
    std::memcpy(&in, name.raw(), sizeof in);
    h.port = in.sin6_port;
    std::memcpy(h.address, &in.sin6_addr, sizeof in.sin6_addr);
  }
}

net_address address_of(const hello& h) noexcept {
  if (h.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = h.port;
    std::memcpy(&in.sin_addr, h.address, sizeof in.sin_addr);
    return net_address(&in, sizeof in);
  }
  if (h.family == AF_INET6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = h.port;
    std::memcpy(&in.sin6_addr, h.address, sizeof in.sin6_addr);
    return net_address(&in, sizeof in);
  }
  return {};
}

const char* to_string(wire::reject_reason why) noexcept {
  switch (why) {
    case wire::reject_reason::none:
      return "no reason given";
    case wire::reject_reason::wrong_version:
      return "different wire version";
    case wire::reject_reason::simultaneous:
      return "both sides connected at once";
    case wire::reject_reason::resources:
      return "out of resources";
    case wire::reject_reason::malformed:
      return "not a gaudi endpoint's request";
    case wire::reject_reason::no_session:
      return "the session has ended";
  }
  return "unknown reason";
}

}  // namespace gaudi::proto
