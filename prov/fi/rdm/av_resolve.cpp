// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/av_resolve.hpp"

#include <netdb.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.hpp"

namespace gaudi::fi {
namespace {

struct addrinfo_freer {
  void operator()(addrinfo* ai) const noexcept { ::freeaddrinfo(ai); }
};

int family_of(std::uint32_t addr_format) {
  if (addr_format == FI_SOCKADDR_IN) return AF_INET;
  if (addr_format == FI_SOCKADDR_IN6) return AF_INET6;
  return AF_UNSPEC;
}

proto::net_address get_address(const char* node, const char* service, int family, int flags) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int ret = ::getaddrinfo(node, service, &hints, &found)) {
    if (!(flags & AI_NUMERICHOST)) {
      GAUDI_INFO(AV, "%s:%s does not resolve: %s\n", node, service, ::gai_strerror(ret));
    }
    return {};
  }
  const std::unique_ptr<addrinfo, addrinfo_freer> owner(found);
  return {found->ai_addr, found->ai_addrlen};
}

/// A whole text as a number.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "host08" as "host" and a counter from 8, two digits wide.
class numbered_host {
 public:
  static std::optional<numbered_host> parse(std::string_view name) {
    const auto last = name.find_last_not_of("0123456789");
    const std::size_t stem = last == std::string_view::npos ? 0 : last + 1;
    const auto first = number(name.substr(stem));
    if (!first) return std::nullopt;
    return numbered_host{std::string(name.substr(0, stem)), *first, name.size() - stem};
  }

  [[nodiscard]] std::string at(std::size_t step) const {
    auto digits = std::to_string(first_ + step);
    if (digits.size() < width_) digits.insert(0, width_ - digits.size(), '0');
    return stem_ + digits;
  }

 private:
  numbered_host(std::string stem, std::uint64_t first, std::size_t width)
      : stem_(std::move(stem)), first_(first), width_(width) {}

  std::string stem_;
  std::uint64_t first_;
  std::size_t width_;
};

}  // namespace

base::result<proto::net_address> resolve(const char* node, const char* service,
                                         std::uint32_t addr_format) {
  if (!node || !service) return base::error{-FI_EINVAL};
  const auto address = get_address(node, service, family_of(addr_format), 0);
  if (address.empty()) return base::error{-FI_ENODATA};
  return address;
}

base::result<std::vector<proto::net_address>> resolve_symmetric(const char* node,
                                                                std::size_t nodecnt,
                                                                const char* service,
                                                                std::size_t svccnt,
                                                                std::uint32_t addr_format) {
  if (!node || !service) return base::error{-FI_EINVAL};
  const auto port = number(service);
  if (!port || *port + svccnt > 65536) return base::error{-FI_EINVAL};

  const int family = family_of(addr_format);
  const auto numeric = get_address(node, service, family, AI_NUMERICHOST);
  const auto host = numeric.empty() && nodecnt > 1 ? numbered_host::parse(node) : std::nullopt;
  if (numeric.empty() && nodecnt > 1 && !host) return base::error{-FI_EINVAL};

  std::vector<proto::net_address> addresses;
  addresses.reserve(nodecnt * svccnt);
  for (std::size_t n = 0; n < nodecnt; ++n) {
    const auto base = !numeric.empty()
                          ? numeric.advanced(n)
                          : get_address(host ? host->at(n).c_str() : node, service, family, 0);
    for (std::size_t s = 0; s < svccnt; ++s) {
      addresses.push_back(base.with_port(static_cast<std::uint16_t>(*port + s)));
    }
  }
  return addresses;
}

}  // namespace gaudi::fi
