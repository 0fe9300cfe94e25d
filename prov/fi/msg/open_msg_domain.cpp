// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/open_msg_domain.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "fi/common/ext_ops.hpp"
#include "fi/common/fabric.hpp"
#include "fi/common/forward.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/hmem.hpp"
#include "fi/msg/forwarded_fid.hpp"
#include "fi/msg/msg_domain.hpp"
#include "fi/msg/msg_info.hpp"
#include "fi/msg/msg_mr.hpp"
#include "fi/msg/open_msg_endpoint.hpp"

namespace gaudi::fi {
namespace {

int close_msg_domain(fid_t f) noexcept {
  msg_domain& d = msg_domain::of(f);
  if (d.used_after_fork()) return 0;
  if (const int ret = d.close()) {
    GAUDI_INFO(DOMAIN, "domain stays open: close its endpoints, queues and memory regions first\n");
    return ret;
  }
  delete &d;
  return 0;
}

int bind_msg_domain(fid_t f, fid_t other, std::uint64_t flags) noexcept {
  return guarded_int([&] { return msg_domain::of(f).bind(other, flags); });
}

/// Without paths to count: every operation is the core's.
fi_gaudi_ops msg_extension_ops = [] {
  fi_gaudi_ops ops = extension_ops;
  ops.cache_stats = in_own_process<domain_base, cache_stats<msg_domain>>;
  ops.device_stats = in_own_process<domain_base, device_stats<msg_domain>>;
  ops.pool_create = in_own_process<domain_base, pool_create<msg_domain>>;
  ops.pool_destroy = in_own_process<domain_base, pool_destroy<msg_domain>>;
  return ops;
}();

int open_connected_ops(fid_t f, const char* name, std::uint64_t flags, void** ops,
                       void* context) noexcept {
  if (std::strcmp(name, FI_GAUDI_DOMAIN_OPS) == 0) {
    if (flags) return -FI_EBADFLAGS;
    *ops = &msg_extension_ops;
    return 0;
  }
  fid* const core = &msg_domain::of(f).core()->fid;
  return core->ops->ops_open(core, name, flags, ops, context);
}

fi_ops make_connected_domain_fid_ops() noexcept {
  fi_ops ops = forwarded_fid_ops<msg_domain, close_msg_domain>();
  ops.bind = in_own_process<msg_domain, bind_msg_domain>;
  ops.ops_open = in_own_process<msg_domain, open_connected_ops>;
  return ops;
}
fi_ops msg_domain_fid_ops = make_connected_domain_fid_ops();

template <auto Entry>
constexpr auto cores = forward<msg_domain, &fid_domain::ops, Entry>;

padded<fi_ops_domain> msg_domain_ops{{.size = sizeof(fi_ops_domain),
                                      .av_open = cores<&fi_ops_domain::av_open>,
                                      .cq_open = cores<&fi_ops_domain::cq_open>,
                                      .endpoint = msg_endpoint_open,
                                      .scalable_ep = not_supported,
                                      .cntr_open = cores<&fi_ops_domain::cntr_open>,
                                      .poll_open = cores<&fi_ops_domain::poll_open>,
                                      .stx_ctx = cores<&fi_ops_domain::stx_ctx>,
                                      .srx_ctx = cores<&fi_ops_domain::srx_ctx>,
                                      .query_atomic = cores<&fi_ops_domain::query_atomic>,
                                      .query_collective = not_supported,
                                      .endpoint2 = not_supported}};

}  // namespace

fid_domain msg_domain_fid(void* context) noexcept {
  return {.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &msg_domain_fid_ops},
          .ops = &msg_domain_ops,
          .mr = &msg_mr_ops};
}

int msg_domain_open(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    core::unique_info core_info = core_info_behind(*info);
    if (!core_info) return -FI_ENOMEM;
    const auto core_fabric = fabric::of(f).core_fabric(*core_info->fabric_attr);
    if (!core_fabric) return core_fabric.code();
    auto core = core::inner_domain::open_in(*core_fabric, std::move(core_info));
    if (!core) return core.code();
    *out = new msg_domain(msg_domain_fid(context), fabric::of(f), *core_fabric, has_hmem(*info),
                          std::move(*core));
    return 0;
  });
}

}  // namespace gaudi::fi
