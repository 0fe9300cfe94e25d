// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "address.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "failure.hpp"

namespace gaudi::rdma_check {

address address::resolve(const std::string& host, std::uint16_t port) {
  struct free_list {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    throw failure(exit_code::no_connection, fmt::format("{}: {}", host, gai_strerror(error)));
  const std::unique_ptr<addrinfo, free_list> list(found);
  address result;
  std::memcpy(&result.storage_, list->ai_addr, list->ai_addrlen);
  return result;
}

address address::any(int family, std::uint16_t port) {
  address result;
  result.storage_.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&result.storage_)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in*>(&result.storage_)->sin_port = htons(port);
  return result;
}

}  // namespace gaudi::rdma_check
