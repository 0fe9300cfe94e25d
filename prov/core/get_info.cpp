// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/get_info.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "core/scatter_to_cqe.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::core {
namespace {

/// The newest interface whose structures the provider knows how to pad and read; from 1.20 on verbs
/// takes dma-buf registrations.
constexpr std::uint32_t newest_version = FI_VERSION(1, 20);

thread_local bool nested = false;

class nested_scope {
 public:
  nested_scope() noexcept { nested = true; }
  ~nested_scope() { nested = false; }
  nested_scope(const nested_scope&) = delete;
  nested_scope& operator=(const nested_scope&) = delete;
};

/// fi_freeinfo frees strings and addresses with free().
char* owned_string(const std::string& text) {
  if (text.empty()) return nullptr;
  char* const copy = ::strdup(text.c_str());
  if (!copy) throw std::bad_alloc();
  return copy;
}

void set_address(void*& addr, std::size_t& length, std::span<const std::byte> from) {
  if (from.empty()) return;
  addr = std::malloc(from.size());
  if (!addr) throw std::bad_alloc();
  std::memcpy(addr, from.data(), from.size());
  length = from.size();
}

unique_info hints_for(const query& q, const char* provider) {
  unique_info hints(fi_allocinfo());
  if (!hints) return hints;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->addr_format = q.addr_format;
  set_address(hints->src_addr, hints->src_addrlen, q.src_addr);
  set_address(hints->dest_addr, hints->dest_addrlen, q.dest_addr);
  hints->ep_attr->type = FI_EP_MSG;
  // The provider's own domain lock serialises all calls on a core domain.
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->name = owned_string(q.domain_name);
  hints->fabric_attr->name = owned_string(q.fabric_name);
  // Never without a name: with `include_hidden` and no name libfabric would ask this provider
  // again.
  hints->fabric_attr->prov_name = ::strdup(provider);
  return hints->fabric_attr->prov_name ? std::move(hints) : unique_info();
}

bool is_named(const char* name, const std::string& wanted) {
  return wanted.empty() || (name && wanted == name);
}

bool is_among(const char* name, std::span<const std::string> wanted) {
  return wanted.empty() || (name && std::find(wanted.begin(), wanted.end(), name) != wanted.end());
}

bool has_format(std::uint32_t format, std::uint32_t wanted) {
  return wanted == FI_FORMAT_UNSPEC || wanted == FI_SOCKADDR || format == wanted;
}

/// What is left of `list` with the entries that `wanted` wants.
template <class Wanted>
unique_info keep_if(unique_info list, const Wanted& wanted) {
  fi_info* kept = nullptr;
  fi_info** tail = &kept;
  for (fi_info* rest = list.release(); rest;) {
    unique_info one(rest);
    rest = std::exchange(one->next, nullptr);
    if (!wanted(*one)) continue;
    *tail = one.release();
    tail = &(*tail)->next;
  }
  return unique_info(kept);
}

/// What is left of `list` with the names and the format that were asked for: tcp does not look at
/// all of them.
unique_info keep_matching(unique_info list, const query& q) {
  // Who names a NIC gets it.
  if (q.domain_name.empty() && q.nics.empty()) list = without_gaudi_ports(std::move(list));
  return keep_if(std::move(list), [&](const fi_info& one) {
    return is_named(one.fabric_attr->name, q.fabric_name) &&
           is_named(one.domain_attr->name, q.domain_name) &&
           is_among(one.domain_attr->name, q.nics) && has_format(one.addr_format, q.addr_format);
  });
}

/// fi_getinfo of this provider alone.
base::result<unique_info> call(const char* provider, std::uint32_t version, const char* node,
                               const char* service, std::uint64_t flags, const fi_info& hints) {
  if (std::strcmp(provider, "verbs") == 0) forbid_scatter_to_cqe();
  const nested_scope scope;
  fi_info* found = nullptr;
  const int ret =
      fi_getinfo(version, node, service,
                 only_core_providers | include_hidden | (flags & (FI_SOURCE | FI_NUMERICHOST)),
                 &hints, &found);
  if (ret) return base::error{ret};
  return unique_info(found);
}

base::result<unique_info> ask(const query& q, const char* provider) {
  const unique_info hints = hints_for(q, provider);
  if (!hints) return base::error{-FI_ENOMEM};
  auto found =
      call(provider, std::min(fi_version(), newest_version), q.node, q.service, q.flags, *hints);
  if (!found) return found;
  auto matching = keep_matching(*std::move(found), q);
  if (!matching) return base::error{-FI_ENODATA};
  return matching;
}

base::result<unique_info> ask_chosen(const query& q, const char* provider) {
  auto found = ask(q, provider);
  // A question about any interface has an answer wherever the core provider works at all.
  const bool unrestricted = !q.node && !q.service && q.src_addr.empty() && q.dest_addr.empty() &&
                            q.addr_format == FI_FORMAT_UNSPEC && q.fabric_name.empty() &&
                            q.domain_name.empty() && q.nics.empty();
  static std::atomic_flag warned;
  if (!found && unrestricted && !warned.test_and_set()) {
    GAUDI_WARN(
        CORE,
        "FI_GAUDI_CORE=%s, but libfabric's %s provider offers no FI_EP_MSG endpoint (%s): see "
        "`FI_PROVIDER=%s fi_info`, or set FI_GAUDI_CORE=auto\n",
        provider, provider, fi_strerror(-found.code()), provider);
  }
  return found;
}

/// Hands the answer on; where there is none although NICs were chosen, the choice may be the
/// reason.
base::result<unique_info> with_nics(std::span<const std::string> nics,
                                    base::result<unique_info> found) {
  static std::atomic_flag warned;
  if (found || nics.empty() || warned.test_and_set()) return found;
  std::string names;
  for (const auto& nic : nics) names += (names.empty() ? "" : ",") + nic;
  GAUDI_WARN(CORE,
             "FI_GAUDI_NIC=%s: none of these has what was asked for (%s); see the domains of "
             "`fi_info -p verbs -t FI_EP_MSG`, or of -p tcp without an RDMA NIC\n",
             names.c_str(), fi_strerror(-found.code()));
  return found;
}

base::result<unique_info> get_info_of_any(const query& q) {
  switch (q.core) {
    case base::core_choice::verbs:
      return ask_chosen(q, "verbs");
    case base::core_choice::tcp:
      return ask_chosen(q, "tcp");
    case base::core_choice::automatic:
      break;
  }
  if (q.rdma_present) {
    auto found = ask(q, "verbs");
    if (found) return found;
  }
  return ask(q, "tcp");
}

}  // namespace

unique_info without_gaudi_ports(unique_info list) {
  return keep_if(std::move(list), [](const fi_info& one) {
    return !one.domain_attr->name || !topo::is_gaudi_port(one.domain_attr->name);
  });
}

base::result<unique_info> get_info(const query& q) {
  return with_nics(q.nics, get_info_of_any(q));
}

base::result<unique_info> get_info_as_asked(const passed_on& q, fi_info& hints) {
  const auto text = [](const char* name) { return std::string(name ? name : ""); };
  const query names{.addr_format = hints.addr_format,
                    .fabric_name = text(hints.fabric_attr->name),
                    .domain_name = text(hints.domain_attr->name),
                    .nics = q.nics};
  const auto ask_one = [&](const char* provider) -> base::result<unique_info> {
    std::free(std::exchange(hints.fabric_attr->prov_name, ::strdup(provider)));
    if (!hints.fabric_attr->prov_name) return base::error{-FI_ENOMEM};
    auto found = call(provider, q.version, q.node, q.service, q.flags, hints);
    if (!found) return found;
    auto matching = keep_matching(*std::move(found), names);
    if (!matching) return base::error{-FI_ENODATA};
    return matching;
  };
  if (q.core == base::core_choice::verbs) return with_nics(q.nics, ask_one("verbs"));
  if (q.core == base::core_choice::automatic && q.rdma_present) {
    auto found = ask_one("verbs");
    if (found) return found;
  }
  return with_nics(q.nics, ask_one("tcp"));
}

bool inside_get_info() noexcept {
  return nested;
}

}  // namespace gaudi::core
