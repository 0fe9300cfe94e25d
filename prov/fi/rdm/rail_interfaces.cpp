// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/rail_interfaces.hpp"

#include <ifaddrs.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "core/get_info.hpp"
#include "fi/common/device_region.hpp"
#include "fi/info/nic_order.hpp"
#include "proto/wire/wire.hpp"

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

// Those that are named, but for the one of `own`; without address: it has none like it.
std::vector<proto::rail_interface> named_interfaces(const std::vector<std::string>& names,
                                                    const proto::net_address& own) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const interface_list all(first);
  std::vector<proto::rail_interface> named;
  for (const std::string& name : names) {
    const proto::net_address address = address_of(all.get(), name, own.raw()->sa_family);
    if (address.empty() || !address.is_same_host(own)) named.push_back({address, nullptr, name});
  }
  return named;
}

std::vector<proto::rail_interface> interfaces_of(const std::vector<std::string>& names,
                                                 const proto::net_address& own) {
  std::vector<proto::rail_interface> found;
  for (proto::rail_interface& named : named_interfaces(names, own)) {
    if (named.at.empty())
      GAUDI_WARN(DOMAIN, "FI_GAUDI_RAILS: %s is no interface with an address like %s: left out\n",
                 named.name.c_str(), own.to_string().c_str());
    else
      found.push_back(std::move(named));
  }
  return found;
}

proto::net_address source_of(const fi_info& info) {
  return info.src_addr ? proto::net_address(info.src_addr, info.src_addrlen) : proto::net_address();
}

// One that is only good on its own link comes last.
const fi_info* entry_of(const fi_info* all, const std::string& name) {
  const fi_info* found = nullptr;
  for (const fi_info* i = all; i; i = i->next) {
    if (!i->src_addr || name != i->domain_attr->name) continue;
    if (source_of(*i).scope() == 0) return i;
    found = i;
  }
  return found;
}

std::unique_ptr<core::inner_domain> open_beside(const core::inner_domain& own,
                                                const fi_info* entry) {
  core::unique_info info(entry ? fi_dupinfo(entry) : nullptr);
  if (!info) return nullptr;
  auto opened = core::inner_domain::open_beside(own, std::move(info));
  return opened ? std::move(*opened) : nullptr;
}

reg::other_nic::settings settings_of(const base::params& p) {
  return {.dmabuf = p.dmabuf, .flush = p.flush, .cache = cache_limits(p), .windows = windows(p)};
}

struct chosen_nic {
  std::string name;
  const fi_info* entry;  ///< what the core says of it; null: named, and not there
};

// Which NICs, besides the domain's own, in the order in which they are to be used.
struct chosen_nics {
  core::unique_info all;
  std::vector<chosen_nic> list;
};

chosen_nics chosen_by(const provider_context& context, const fi_info& own) {
  const base::params& p = context.params;
  chosen_nics chosen;
  std::vector<std::string> names = p.rails.interfaces;
  auto found = core::get_info({.addr_format = own.addr_format,
                               .nics = p.rails.is_automatic ? p.nics : p.rails.interfaces,
                               .core = base::core_choice::verbs});
  if (found) chosen.all = in_order(std::move(*found), order_in_use(context));
  if (p.rails.is_automatic) names = nics_of(chosen.all.get());
  std::erase(names, own.domain_attr->name);
  for (const std::string& name : names) {
    const fi_info* const entry = entry_of(chosen.all.get(), name);
    if (entry || !p.rails.is_automatic) chosen.list.push_back({name, entry});
  }
  return chosen;
}

rail_nics open_rail_nics(const core::inner_domain& own, const provider_context& context) {
  const base::params& p = context.params;
  rail_nics opened;
  const bool are_wanted = p.rails.is_automatic || !p.rails.interfaces.empty();
  if (!are_wanted || !own.over_rdma()) return opened;
  const auto [all, list] = chosen_by(context, own.info());
  for (const auto& [name, entry] : list) {
    if (opened.size() + 1 == base::max_rails) break;
    auto core = open_beside(own, entry);
    if (core)
      opened.push_back(
          std::make_unique<reg::other_nic>(std::move(core), opened.size() + 1, settings_of(p)));
    else if (!p.rails.is_automatic)
      GAUDI_WARN(DOMAIN,
                 "FI_GAUDI_RAILS: %s is no RDMA device with an address like %s's: left out (see "
                 "the domains of `fi_info -p verbs -t FI_EP_MSG`)\n",
                 name.c_str(), own.info().domain_attr->name);
  }
  return opened;
}

proto::rail_settings rails_of(const core::inner_domain& own, const rail_nics& nics,
                              const base::params& p) {
  proto::rail_settings rails{.count = p.rails.count, .chunk = p.rails.chunk, .others = {}};
  if (p.rails.interfaces.empty() && !p.rails.is_automatic) return rails;
  for (const auto& nic : nics) {
    const fi_info& info = nic->core().info();
    rails.others.push_back({source_of(info), nic.get(), info.domain_attr->name});
  }
  if (!own.over_rdma() && !p.rails.is_automatic)
    rails.others = interfaces_of(p.rails.interfaces, source_of(own.info()));
  rails.count = 1 + rails.others.size();
  return rails;
}

std::vector<planned_rail> planned_interfaces(const fi_info& own, const base::params& p) {
  std::vector<planned_rail> rails;
  for (const auto& named : named_interfaces(p.rails.interfaces, source_of(own)))
    rails.push_back({named.name, !named.at.empty()});
  return rails;
}

std::vector<planned_rail> planned_nics(const fi_info& own, const provider_context& context) {
  std::vector<planned_rail> rails;
  const auto [all, list] = chosen_by(context, own);
  std::size_t there = 1;
  for (const auto& [name, entry] : list) {
    if (there == base::max_rails) break;
    if (entry) ++there;
    rails.push_back({name, entry != nullptr});
  }
  return rails;
}

// As rail_connector has it.
const char* name_of_rail(const core::inner_domain& own, const proto::rail_settings& rails,
                         std::size_t place) {
  const std::size_t which = place % (rails.others.size() + 1);
  return which == 0 ? own.info().domain_attr->name : rails.others[which - 1].name.c_str();
}

}  // namespace

domain_rails::domain_rails(const core::inner_domain& own, const provider_context& context)
    : nics_(open_rail_nics(own, context)), settings_(rails_of(own, nics_, context.params)) {
  for (std::size_t place = 1; place < settings_.count; ++place) {
    const base::counters::subject about{.kind = base::counters::block_kind::rail,
                                        .name = name_of_rail(own, settings_, place),
                                        .detail = own.info().fabric_attr->prov_name,
                                        .number = static_cast<std::int32_t>(place)};
    settings_.counted.push_back(&*counters_.emplace_back(about));
  }
  // Those of rails over other NICs are as many as these, and in their order.
  for (std::size_t i = 0; i < nics_.size(); ++i)
    nics_[i]->flush().count_in(settings_.counted[i]->flushes);
}

std::vector<planned_rail> planned_rails(const fi_info& own, const provider_context& context) {
  const base::params& p = context.params;
  std::vector<planned_rail> rails{{own.domain_attr->name}};
  std::vector<planned_rail> others;
  const bool are_named = p.rails.is_automatic || !p.rails.interfaces.empty();
  if (core::is_rdma(own) && are_named)
    others = planned_nics(own, context);
  else if (!p.rails.interfaces.empty())
    others = planned_interfaces(own, p);
  else if (!p.rails.is_automatic)
    others.assign(std::max<std::size_t>(p.rails.count, 1) - 1, rails.front());
  rails.insert(rails.end(), others.begin(), others.end());
  return rails;
}

}  // namespace gaudi::fi
