// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/wire/net_address.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <span>

namespace gaudi::proto {
namespace {

std::size_t length_of(sa_family_t family) noexcept {
  if (family == AF_INET) return sizeof(sockaddr_in);
  if (family == AF_INET6) return sizeof(sockaddr_in6);
  return 0;
}

/// One step of a 64-bit mixing hash; multiplication spreads the low bits, the shift brings the high
/// ones back.
std::uint64_t mix(std::uint64_t h, std::uint64_t value) noexcept {
  h = (h ^ value) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 32);
}

/// Adds to a number in network byte order; overflow wraps.
void add_big_endian(std::span<std::uint8_t> digits, std::size_t step) noexcept {
  std::size_t carry = step;
  for (auto digit = digits.rbegin(); digit != digits.rend() && carry != 0; ++digit) {
    const std::size_t sum = (carry & 0xFF) + *digit;
    *digit = static_cast<std::uint8_t>(sum);
    carry = (carry >> 8) + (sum >> 8);
  }
}

}  // namespace

net_address::net_address(const void* addr, std::size_t length) noexcept {
  sa_family_t family = AF_UNSPEC;
  if (!addr || length < sizeof(family)) return;
  std::memcpy(&family, addr, sizeof(family));
  const std::size_t needed = length_of(family);
  if (needed != 0 && needed <= length) std::memcpy(&value_, addr, needed);
}

std::size_t net_address::length() const noexcept {
  return length_of(raw()->sa_family);
}

bool net_address::is_destination() const noexcept {
  if (port() == 0) return false;
  if (raw()->sa_family == AF_INET) return value_.v4.sin_addr.s_addr != INADDR_ANY;
  return !IN6_IS_ADDR_UNSPECIFIED(&value_.v6.sin6_addr);
}

std::uint16_t net_address::port() const noexcept {
  // sin_port and sin6_port are the same two bytes.
  return empty() ? 0 : ntohs(value_.v4.sin_port);
}

net_address net_address::with_port(std::uint16_t port) const noexcept {
  net_address copy = *this;
  if (!empty()) copy.value_.v4.sin_port = htons(port);
  return copy;
}

bool net_address::is_same_host(const net_address& other) const noexcept {
  if (raw()->sa_family != other.raw()->sa_family) return false;
  if (raw()->sa_family == AF_INET)
    return value_.v4.sin_addr.s_addr == other.value_.v4.sin_addr.s_addr;
  return std::memcmp(&value_.v6.sin6_addr, &other.value_.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

bool net_address::is_loopback() const noexcept {
  if (raw()->sa_family == AF_INET)
    return (ntohl(value_.v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
  return raw()->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&value_.v6.sin6_addr);
}

std::uint32_t net_address::scope() const noexcept {
  const bool has_one = raw()->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&value_.v6.sin6_addr);
  return has_one ? value_.v6.sin6_scope_id : 0;
}

net_address net_address::with_scope(std::uint32_t scope) const noexcept {
  net_address copy = *this;
  if (raw()->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&value_.v6.sin6_addr))
    copy.value_.v6.sin6_scope_id = scope;
  return copy;
}

net_address net_address::advanced(std::size_t step) const noexcept {
  net_address copy = *this;
  if (raw()->sa_family == AF_INET) {
    const auto host = ntohl(value_.v4.sin_addr.s_addr) + static_cast<std::uint32_t>(step);
    copy.value_.v4.sin_addr.s_addr = htonl(host);
  } else if (raw()->sa_family == AF_INET6) {
    add_big_endian(copy.value_.v6.sin6_addr.s6_addr, step);
  }
  return copy;
}

net_address::text net_address::to_string() const noexcept {
  std::array<char, INET6_ADDRSTRLEN> host{};
  text all;
  const auto print = [&](const char* format) {
    std::snprintf(all.chars_.data(), all.chars_.size(), format, host.data(), port());
  };
  if (raw()->sa_family == AF_INET) {
    inet_ntop(AF_INET, &value_.v4.sin_addr, host.data(), host.size());
    print("fi_sockaddr_in://%s:%u");
  } else if (raw()->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &value_.v6.sin6_addr, host.data(), host.size());
    print("fi_sockaddr_in6://[%s]:%u");
  } else {
    print("none");
  }
  return all;
}

bool operator==(const net_address& a, const net_address& b) noexcept {
  if (a.raw()->sa_family != b.raw()->sa_family || a.port() != b.port()) return false;
  if (a.raw()->sa_family == AF_INET) {
    return a.value_.v4.sin_addr.s_addr == b.value_.v4.sin_addr.s_addr;
  }
  return std::memcmp(&a.value_.v6.sin6_addr, &b.value_.v6.sin6_addr, sizeof(in6_addr)) == 0 &&
         a.value_.v6.sin6_scope_id == b.value_.v6.sin6_scope_id;
}

std::size_t net_address::hash() const noexcept {
  std::uint64_t h = mix(raw()->sa_family, port());
  if (raw()->sa_family == AF_INET) return mix(h, value_.v4.sin_addr.s_addr);
  std::array<std::uint64_t, 2> halves{};
  std::memcpy(halves.data(), &value_.v6.sin6_addr, sizeof(in6_addr));
  h = mix(mix(h, halves[0]), halves[1]);
  return mix(h, value_.v6.sin6_scope_id);
}

}  // namespace gaudi::proto
