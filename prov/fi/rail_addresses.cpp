// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rail_addresses.hpp"

#include <ifaddrs.h>

#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "proto/wire.hpp"

namespace gaudi::fi {
namespace {

static_assert(base::max_rails == proto::wire::max_rails);

using interface_list = std::unique_ptr<ifaddrs, decltype([](ifaddrs* all) { freeifaddrs(all); })>;

std::size_t length_of(const sockaddr& address) noexcept {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// Empty: it has none of the family. One that is only good on its own link comes last.
proto::net_address address_of(const ifaddrs* all, const std::string& interface, int family) {
  proto::net_address found;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || interface != i->ifa_name) continue;
    const proto::net_address address(i->ifa_addr, length_of(*i->ifa_addr));
    if (address.scope() == 0) return address;
    found = address;
  }
  return found;
}

std::vector<proto::net_address> addresses_of(const std::vector<std::string>& interfaces,
                                             const proto::net_address& own) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const interface_list all(first);
  std::vector<proto::net_address> found;
  for (const std::string& name : interfaces) {
    const proto::net_address address = address_of(all.get(), name, own.raw()->sa_family);
    if (address.empty())
      GAUDI_WARN(DOMAIN, "FI_GAUDI_RAILS: %s is no interface with an address like %s: left out\n",
                 name.c_str(), own.to_string().c_str());
    else if (!address.is_same_host(own))
      found.push_back(address);
  }
  return found;
}

}  // namespace

proto::rail_settings rails_of(const core::inner_domain& core, const base::params& p) {
  proto::rail_settings rails{.count = p.rails.count, .chunk = p.rails.chunk, .others = {}};
  if (p.rails.interfaces.empty()) return rails;
  rails.count = 1;
  if (core.over_rdma()) {
    GAUDI_WARN(DOMAIN, "FI_GAUDI_RAILS: over verbs only a number of rails is taken, not names\n");
    return rails;
  }
  const fi_info& info = core.info();
  rails.others = addresses_of(p.rails.interfaces, {info.src_addr, info.src_addrlen});
  rails.count += rails.others.size();
  return rails;
}

}  // namespace gaudi::fi
