// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/msg_info.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "core/get_info.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/info/hmem.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/info/naming.hpp"
#include "fi/info/nic_bus.hpp"
#include "fi/info/nic_order.hpp"
#include "fi/msg/passive_base.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::fi {
namespace {

// What a verbs core wants of who leaves the choice to it.
constexpr int any_core_mode = FI_MR_LOCAL | offer::direct_mr_mode;

/// Puts what is missing of `info` there, with the size that the running library's structures have.
bool complete(fi_info& info) {
  const core::unique_info blank(fi_allocinfo());
  if (!blank) return false;
  if (!info.tx_attr) std::swap(info.tx_attr, blank->tx_attr);
  if (!info.rx_attr) std::swap(info.rx_attr, blank->rx_attr);
  if (!info.ep_attr) std::swap(info.ep_attr, blank->ep_attr);
  if (!info.domain_attr) std::swap(info.domain_attr, blank->domain_attr);
  if (!info.fabric_attr) std::swap(info.fabric_attr, blank->fabric_attr);
  return true;
}

/// Takes out of `info` what only this provider understands.
void present_as_cores(fi_info& info, domain_naming naming) {
  fi_domain_attr& domain = *info.domain_attr;
  if (domain.name) replace(domain.name, std::string(core_domain_name(domain.name, naming)));
  domain.domain = nullptr;
  domain.mr_mode &= ~FI_MR_HMEM;
  info.fabric_attr->fabric = nullptr;
  info.fabric_attr->prov_version = 0;
  std::free(std::exchange(info.fabric_attr->prov_name, nullptr));
  for (std::uint64_t* caps : {&info.caps, &info.tx_attr->caps, &info.rx_attr->caps})
    *caps &= ~FI_HMEM;
  if (info.handle && info.handle->fclass == FI_CLASS_PEP)
    info.handle = &passive_base::of(info.handle).core()->fid;
}

core::unique_info hints_for_core(const fi_info* hints, domain_naming naming) {
  core::unique_info asked(hints ? fi_dupinfo(hints) : fi_allocinfo());
  if (!asked || !complete(*asked)) return {};
  if (!hints) {
    asked->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    asked->domain_attr->mr_mode = any_core_mode;
  }
  asked->ep_attr->type = FI_EP_MSG;
  present_as_cores(*asked, naming);
  return asked;
}

/// Why connected endpoints cannot use device memory here; null: they can.
const char* without_hmem(const info_request& asked, const fi_info& core) {
  const int modes = FI_MR_HMEM | offer::direct_mr_mode;
  if (!device_present(asked.context)) return "no Gaudi is present";
  if (core.ep_attr->protocol == FI_PROTO_SOCK_TCP)
    return "tcp cannot read or write it; endpoints of type FI_EP_RDM stage it";
  if (FI_VERSION_LT(fi_version(), FI_VERSION(1, 20)) ||
      FI_VERSION_LT(asked.version, FI_VERSION(1, 20)))
    return "libfabric and the application's interface must be of version 1.20 at least";
  if (!asked.hints->domain_attr || (asked.hints->domain_attr->mr_mode & modes) != modes)
    return "FI_MR_HMEM, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY must be in mr_mode";
  return nullptr;
}

}  // namespace

void present_as_ours(fi_info& info, bool hmem, domain_naming naming) {
  fi_domain_attr& domain = *info.domain_attr;
  if (domain.name && core_domain_name(domain.name, naming).empty())
    replace(domain.name, domain_name(domain.name, naming));
  domain.domain = nullptr;
  info.fabric_attr->fabric = nullptr;
  info.fabric_attr->prov_version = base::provider().version;
  if (!hmem) return;
  for (std::uint64_t* caps : {&info.caps, &info.tx_attr->caps, &info.rx_attr->caps})
    *caps |= FI_HMEM;
  domain.mr_mode |= FI_MR_HMEM;
  // The core takes device memory for host memory, and would read what it may send inline with the
  // CPU.
  info.tx_attr->inject_size = 0;
}

base::result<core::unique_info> list_msg(const info_request& asked) {
  const auto naming = asked.naming();
  const core::unique_info hints = hints_for_core(asked.hints, naming);
  if (!hints) return base::error{-FI_ENOMEM};
  auto found = core::get_info_as_asked({.version = asked.version,
                                        .node = asked.node,
                                        .service = asked.service,
                                        .flags = asked.flags,
                                        .nics = asked.params().nics,
                                        .core = asked.params().core,
                                        .rdma_present = !topo::rdma_devices().empty()},
                                       *hints);
  if (!found) return found;
  found = in_order(*std::move(found), order_in_use(asked.context));
  add_pci_addresses(found->get());
  const bool hmem = asks_hmem(asked.hints);
  if (hmem) {
    if (const char* why = without_hmem(asked, **found)) {
      GAUDI_INFO(CORE, "no FI_HMEM for connected endpoints (FI_EP_MSG): %s\n", why);
      return base::error{-FI_ENODATA};
    }
  }
  for (fi_info* info = found->get(); info; info = info->next) {
    present_as_ours(*info, hmem, naming);
    // An endpoint that takes the place of a passive one finds that here, as the application knows
    // it.
    if (info->handle && info->handle == hints->handle) info->handle = asked.hints->handle;
    name_provider(*info, asked.layered);
  }
  return found;
}

core::unique_info core_info_behind(const fi_info& ours) {
  core::unique_info info(fi_dupinfo(&ours));
  if (!info || !complete(*info)) return {};
  fi_freeinfo(std::exchange(info->next, nullptr));
  const bool hmem = has_hmem(*info);
  present_as_cores(*info, naming_of(ours));
  if (hmem) info->tx_attr->inject_size = 0;
  const bool tcp = info->ep_attr->protocol == FI_PROTO_SOCK_TCP;
  replace(info->fabric_attr->prov_name, tcp ? "tcp" : "verbs");
  return info;
}

}  // namespace gaudi::fi
