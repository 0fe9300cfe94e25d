// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/open_domain.hpp"

#include <rdma/fi_errno.h>

#include <cstring>

#include "base/log.hpp"
#include "fi/common/fabric.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/hmem.hpp"
#include "fi/rdm/av_ops.hpp"
#include "fi/rdm/cntr.hpp"
#include "fi/rdm/cq.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/endpoint_atomic.hpp"
#include "fi/rdm/mr.hpp"
#include "fi/rdm/open_endpoint.hpp"
#include "fi/rdm/poll_set.hpp"
#include "fi/rdm/rdm_ext_ops.hpp"
#include "fi/rdm/rdm_info.hpp"
#include "fi/rdm/shared_context.hpp"

namespace gaudi::fi {
namespace {

/// Then the core must not inline, at any size: it would read what it sends with the CPU, and cannot
/// tell a device address from a host's.
bool nic_reaches_devices(const base::params& params, const fi_info& info, const fi_info& core) {
  return has_hmem(info) && params.dmabuf != base::dmabuf_choice::off &&
         std::strcmp(core.fabric_attr->prov_name, "verbs") == 0;
}

int close_domain(fid_t f) noexcept {
  domain& d = domain::of(f);
  if (d.used_after_fork()) return 0;
  if (d.has_children()) {
    GAUDI_INFO(
        DOMAIN,
        "domain stays open: close its endpoints, queues, vectors and memory regions first\n");
    return -FI_EBUSY;
  }
  d.stop_thread();
  delete &d;
  return 0;
}

int open_ops(fid_t, const char* name, std::uint64_t flags, void** ops, void*) noexcept {
  if (flags) return -FI_EBADFLAGS;
  if (std::strcmp(name, FI_GAUDI_DOMAIN_OPS) != 0) return -FI_ENOSYS;
  *ops = &rdm_extension_ops;
  return 0;
}

int open_av(fid_domain* d, fi_av_attr* attr, fid_av** out, void* context) noexcept {
  domain& self = domain::of(d);
  return av_open({self.open_children(), self.lock(), self.addr_format()}, attr, out, context);
}

// Event queues may be bound for asynchronous registration, which is never asynchronous here.
int bind_domain(fid_t, fid_t other, std::uint64_t) noexcept {
  return other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

fi_ops make_fid_ops() noexcept {
  fi_ops ops = only_close<close_domain>();
  ops.bind = in_own_process<domain, bind_domain>;
  ops.ops_open = in_own_process<domain, open_ops>;
  return ops;
}

fi_ops domain_fid_ops = make_fid_ops();
padded<fi_ops_domain> domain_ops{{.size = sizeof(fi_ops_domain),
                                  .av_open = in_own_process<domain, open_av>,
                                  .cq_open = cq_open,
                                  .endpoint = endpoint_open,
                                  .scalable_ep = not_supported,
                                  .cntr_open = cntr_open,
                                  .poll_open = poll_open,
                                  .stx_ctx = stx::open,
                                  .srx_ctx = srx::open,
                                  .query_atomic = query_atomic,
                                  .query_collective = not_supported,
                                  .endpoint2 = not_supported}};

}  // namespace

fid_domain domain_fid(void* context) noexcept {
  return {.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops},
          .ops = &domain_ops,
          .mr = &mr_ops};
}

int domain_open(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    const base::params& params = fabric::of(f).context().params;
    auto core_info = core_info_for(*info, params);
    if (!core_info) return core_info.code();
    if (nic_reaches_devices(params, *info, **core_info)) (*core_info)->tx_attr->inject_size = 0;
    auto core = core::inner_domain::open(std::move(*core_info));
    if (!core) return core.code();
    *out = new domain(domain_fid(context), fabric::of(f), *info, std::move(*core));
    return 0;
  });
}

}  // namespace gaudi::fi
