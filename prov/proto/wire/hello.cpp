// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/wire/hello.hpp"

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

hello hello_of_rail(std::uint64_t instance, std::uint32_t connection, std::uint32_t of_peer,
                    std::uint32_t number, const net_address& name) noexcept {
  hello h{};
  h.magic = wire::magic;
  h.version = wire::version;
  h.flags = wire::is_rail;
  h.connection = connection;
  h.eager_limit = wire::min_message;
  h.instance = instance;
  h.host = number;
  wire::set_resumed(h, of_peer);
  set_address(h, name);
  return h;
}

wire::rail_name to_wire(const net_address& name) noexcept {
  wire::rail_name out{};
  out.family = name.raw()->sa_family;
  if (out.family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, name.raw(), sizeof in);
    out.port = in.sin_port;
    std::memcpy(out.address, &in.sin_addr, sizeof in.sin_addr);
  } else {
    sockaddr_in6 in{};
    std::memcpy(&in, name.raw(), sizeof in);
    out.port = in.sin6_port;
    std::memcpy(out.address, &in.sin6_addr, sizeof in.sin6_addr);
  }
  return out;
}

net_address from_wire(const wire::rail_name& name) noexcept {
  if (name.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = name.port;
    std::memcpy(&in.sin_addr, name.address, sizeof in.sin_addr);
    return net_address(&in, sizeof in);
  }
  if (name.family == AF_INET6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = name.port;
    std::memcpy(&in.sin6_addr, name.address, sizeof in.sin6_addr);
    return net_address(&in, sizeof in);
  }
  return {};
}

void set_address(hello& h, const net_address& name) noexcept {
  const wire::rail_name address = to_wire(name);
  h.family = address.family;
  h.port = address.port;
  std::memcpy(h.address, address.address, sizeof h.address);
}

net_address address_of(const hello& h) noexcept {
  wire::rail_name address{h.family, h.port, {}};
  std::memcpy(address.address, h.address, sizeof h.address);
  return from_wire(address);
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
