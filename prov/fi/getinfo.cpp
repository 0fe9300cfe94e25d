// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/getinfo.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "core/get_info.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/provider_context.hpp"
#include "fi/info/info_request.hpp"
#include "fi/info/named_devices.hpp"
#include "fi/info/naming.hpp"
#include "fi/msg/msg_info.hpp"
#include "fi/rdm/rdm_info.hpp"

namespace gaudi::fi {
namespace {

/// Null where the hints name no domain.
const char* domain_asked(const fi_info* hints) {
  return hints && hints->domain_attr ? hints->domain_attr->name : nullptr;
}

bool known_format(std::uint32_t format) {
  return format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR || format == FI_SOCKADDR_IN ||
         format == FI_SOCKADDR_IN6;
}

/// Hints about names and addresses, before the core is asked.
bool could_match(const fi_info* hints, domain_naming naming) {
  if (!hints) return true;
  if (!known_format(hints->addr_format)) return false;
  if (hints->fabric_attr && hints->fabric_attr->prov_version > base::provider().version)
    return false;
  const char* const domain = domain_asked(hints);
  return !domain || !core_domain_name(domain, naming).empty();
}

base::result<core::unique_info> provider_attributes() {
  core::unique_info info(fi_allocinfo());
  if (!info) return base::error{-FI_ENOMEM};
  info->fabric_attr->prov_version = base::provider().version;
  return info;
}

/// Reliable datagram endpoints come first: who leaves the choice to us can use them for everything.
base::result<core::unique_info> list(const info_request& r) {
  if (!could_match(r.hints, r.naming())) return base::error{-FI_ENODATA};
  const fi_ep_type type = r.hints && r.hints->ep_attr ? r.hints->ep_attr->type : FI_EP_UNSPEC;
  if (type == FI_EP_MSG) return list_msg(r);
  auto first = list_rdm(r);
  if (type != FI_EP_UNSPEC) return first;
  auto second = list_msg(r);
  if (!first && second) return second;
  if (!first || !second) return first;
  fi_info* last = first->get();
  while (last->next) last = last->next;
  last->next = second->release();
  return first;
}

int answer_getinfo(std::uint32_t version, const char* node, const char* service,
                   std::uint64_t flags, const fi_info* hints, bool layered, fi_info** info) {
  // Util providers look for something to layer over; ofi_rxm would come first in the list and copy
  // device memory with the CPU.
  if (core::inside_get_info() || (flags & core::only_core_providers)) return -FI_ENODATA;
  const auto context = provider_context::checked();
  if (!context) return context.code();
  if (const auto named = check_named_devices(*context); !named) return named.code();
  auto found = (flags & FI_PROV_ATTR_ONLY)
                   ? provider_attributes()
                   : list({version, hints, node, service, flags, *context, layered});
  if (!found) return found.code();
  // Who takes the layered name looks for the NIC's in the domain's.
  const bool labels = !layered && !(flags & FI_PROV_ATTR_ONLY);
  if (labels) name_devices(found->get(), domain_asked(hints), *context);
  *info = (*found).release();
  return 0;
}

}  // namespace

int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
            const fi_info* hints, fi_info** info) noexcept {
  return guarded_int(
      [&] { return answer_getinfo(version, node, service, flags, hints, false, info); });
}

int getinfo_layered(std::uint32_t version, const char* node, const char* service,
                    std::uint64_t flags, const fi_info* hints, fi_info** info) noexcept {
  return guarded_int(
      [&] { return answer_getinfo(version, node, service, flags, hints, true, info); });
}

}  // namespace gaudi::fi
