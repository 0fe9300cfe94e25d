// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/open_msg_endpoint.hpp"

#include <rdma/fi_errno.h>

#include <memory>

#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/msg/forwarded_fid.hpp"
#include "fi/msg/msg_domain.hpp"
#include "fi/msg/msg_endpoint.hpp"
#include "fi/msg/msg_endpoint_tables.hpp"
#include "fi/msg/msg_info.hpp"

namespace gaudi::fi {
namespace {

fi_ops msg_ep_fid_ops = endpoint_fid_ops<msg_endpoint>();

fid_ep own_tables_of_connected(void* context) noexcept {
  return {.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &msg_ep_fid_ops},
          .ops = &msg_ep_ops,
          .cm = &msg_ep_cm_ops,
          .msg = &msg_ep_msg_ops,
          .rma = &msg_ep_rma_ops,
          .tagged = &msg_ep_tagged_ops,
          .atomic = &msg_ep_atomic_ops,
          .collective = &no_collectives};
}

}  // namespace

int msg_endpoint_open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->ep_attr || !out || info->ep_attr->type != FI_EP_MSG) return -FI_EINVAL;
    msg_domain& parent = msg_domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    const core::unique_info core_info = core_info_behind(*info);
    if (!core_info) return -FI_ENOMEM;
    std::unique_ptr<msg_endpoint> self(new msg_endpoint(own_tables_of_connected(context), parent));
    fid_ep* opened = nullptr;
    // The core's events name its endpoint, which so leads back to ours.
    if (const int ret = fi_endpoint(parent.core(), core_info.get(), &opened, &self->fid))
      return ret;
    self->adopt(opened);
    *out = self.release();
    return 0;
  });
}

}  // namespace gaudi::fi
