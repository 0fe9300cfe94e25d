// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gaudi::proto {

/// An IPv4 or IPv6 address with a port, by value: the name of an endpoint. A sockaddr_storage would
/// be four times the size, and an address vector may hold millions. Immutable; empty when default
/// constructed.
class net_address {
 public:
  net_address() noexcept = default;
  /// Copies the sockaddr_in or sockaddr_in6 at `addr`, of which `length` bytes may be read. Empty
  /// when it is neither, or shorter than its family says.
  net_address(const void* addr, std::size_t length) noexcept;

  [[nodiscard]] bool empty() const noexcept { return raw()->sa_family == AF_UNSPEC; }
  /// Whether something can be sent there: neither the wildcard address nor port 0.
  [[nodiscard]] bool is_destination() const noexcept;

  [[nodiscard]] const sockaddr* raw() const noexcept { return &value_.any; }
  /// Bytes of the structure at raw(); 0 when empty.
  [[nodiscard]] std::size_t length() const noexcept;
  /// In host byte order.
  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] net_address with_port(std::uint16_t port) const noexcept;
  /// Whether both have the same family and address, whatever the ports.
  [[nodiscard]] bool is_same_host(const net_address& other) const noexcept;
  /// 127.0.0.0/8 or ::1.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// The interface of this host that a link-local IPv6 address is reached by; 0: it says none, or
  /// needs none.
  [[nodiscard]] std::uint32_t scope() const noexcept;
  /// The same address, by that interface if it is a link-local one.
  [[nodiscard]] net_address with_scope(std::uint32_t scope) const noexcept;
  /// The address `step` behind this one, counting up in its numeric form (fi_av_insertsym).
  [[nodiscard]] net_address advanced(std::size_t step) const noexcept;

  /// "fi_sockaddr_in://192.0.2.1:5000", "fi_sockaddr_in6://[::1]:5000": the form that libfabric's
  /// own providers print. "none" when empty.
  class text {
   public:
    [[nodiscard]] const char* c_str() const noexcept { return chars_.data(); }
    [[nodiscard]] bool empty() const noexcept { return chars_[0] == 0; }

   private:
    friend class net_address;
    std::array<char, 80> chars_{};
  };
  [[nodiscard]] text to_string() const noexcept;

  /// Family, address, port and, for a link-local address, its scope.
  friend bool operator==(const net_address& a, const net_address& b) noexcept;
  [[nodiscard]] std::size_t hash() const noexcept;

 private:
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6{};
  } value_;
};

}  // namespace gaudi::proto

template <>
struct std::hash<gaudi::proto::net_address> {
  std::size_t operator()(const gaudi::proto::net_address& a) const noexcept { return a.hash(); }
};
