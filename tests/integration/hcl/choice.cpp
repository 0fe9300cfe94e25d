// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "choice.hpp"

#include <algorithm>
#include <regex>
#include <sstream>
#include <vector>

namespace gaudi::test::hcl {
namespace {

// hl_ofi.h: HL_OFI_MAJOR_VERSION, HL_OFI_MINOR_VERSION.
constexpr std::uint32_t interface_version = FI_VERSION(1, 16);

using entries = std::vector<fi_info*>;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// ofi_t::exclude_tcp_provider(); match_tcp_if_pattern() of hccl/network_utils.cpp takes prefixes.
bool is_excluded_tcp(const fi_info& info, std::uint64_t tag_format, const configuration& how) {
  const std::string name = info.domain_attr->name;
  if (std::regex_match(name, std::regex(how.tcp_exclude_if))) return true;
  if (info.addr_format == FI_SOCKADDR_IN6) return true;
  if (info.ep_attr->mem_tag_format != tag_format) return true;
  const auto wanted = split(how.socket_ifname);
  return !wanted.empty() &&
         std::none_of(wanted.begin(), wanted.end(),
                      [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// ofi_t::exclude_verbs_provider(), without HCL_HNIC_IPV6.
bool is_excluded_verbs(const fi_info& info, std::uint64_t tag_format, const configuration& how) {
  const auto excluded = split(how.verbs_exclude_if);
  if (std::find(excluded.begin(), excluded.end(), info.domain_attr->name) != excluded.end())
    return true;
  if (info.addr_format != FI_SOCKADDR_IN && info.addr_format != FI_SOCKADDR_IN6) return true;
  return info.ep_attr->mem_tag_format != tag_format;
}

// ofi_t::get_tcp_provider(): sorted by name, each once, and the Gaudis take turns.
fi_info* tcp_entry(entries found, const configuration& how) {
  const std::uint64_t tag_format = found.front()->ep_attr->mem_tag_format;
  std::erase_if(found, [&](fi_info* i) { return is_excluded_tcp(*i, tag_format, how); });
  if (found.empty()) return nullptr;
  const auto name = [](const fi_info* i) { return std::string(i->domain_attr->name); };
  std::sort(found.begin(), found.end(), [&](fi_info* a, fi_info* b) { return name(a) > name(b); });
  found.erase(std::unique(found.begin(), found.end(),
                          [&](fi_info* a, fi_info* b) { return name(a) == name(b); }),
              found.end());
  return found[static_cast<std::size_t>(how.module_id) % found.size()];
}

// ofi_t::get_verb_provider(): IPv4 first. hl_topo::getBestProvider() takes the first one where it
// finds no Gaudi among the PCI devices; elsewhere it reads nic->device_attr->name of each.
fi_info* verbs_entry(entries found, const configuration& how) {
  const std::uint64_t tag_format = found.front()->ep_attr->mem_tag_format;
  std::erase_if(found, [&](fi_info* i) { return is_excluded_verbs(*i, tag_format, how); });
  const auto ipv4 = std::find_if(found.begin(), found.end(),
                                 [](const fi_info* i) { return i->addr_format == FI_SOCKADDR_IN; });
  return ipv4 == found.end() ? nullptr : *ipv4;
}

}  // namespace

info_ptr hints(bool gaudi_direct) {
  info_ptr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_TAGGED;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (gaudi_direct) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  hints->ep_attr->type = FI_EP_RDM;
  hints->mode = FI_CONTEXT;
  hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
  hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  return hints;
}

// HCL looks in an unordered map, so a name must not hold both.
std::optional<core_provider> core_of(const std::string& provider_name) {
  if (provider_name.find("verbs") != std::string::npos) return core_provider::verbs;
  if (provider_name.find("tcp") != std::string::npos) return core_provider::tcp;
  return {};
}

std::optional<choice> choose(const configuration& how) {
  choice made;
  fi_info* list = nullptr;
  // run_fi_getinfo(): neither node nor service.
  const info_ptr asked = hints(how.gaudi_direct);
  if (fi_getinfo(interface_version, nullptr, nullptr, 0, asked.get(), &list) != 0) return {};
  made.all.reset(list);
  entries verbs;
  entries tcp;
  for (fi_info* i = list; i; i = i->next) {
    const auto core = core_of(i->fabric_attr->prov_name);
    if (core) (*core == core_provider::verbs ? verbs : tcp).push_back(i);
  }
  if (!verbs.empty()) made.info = verbs_entry(verbs, how);
  made.core = made.info ? core_provider::verbs : core_provider::tcp;
  if (!made.info && !tcp.empty()) made.info = tcp_entry(tcp, how);
  if (!made.info) return {};
  made.mr_local =
      (made.info->domain_attr->mr_mode & FI_MR_LOCAL) && made.core == core_provider::verbs;
  return made;
}

}  // namespace gaudi::test::hcl
