// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg_endpoint.hpp"

#include <rdma/fi_errno.h>

#include <memory>

#include "fi/guard.hpp"
#include "fi/msg_domain.hpp"
#include "fi/msg_info.hpp"
#include "fi/msg_tables.hpp"
#include "fi/tables.hpp"

namespace gaudi::fi {
namespace {

fi_ops msg_ep_fid_ops = endpoint_fid_ops<msg_endpoint>();

}  // namespace

int bind_events(fid& core, fid_fabric* core_fabric, fid_t events, std::uint64_t flags,
                child_count::ref& hold) {
  event_queue& ours = event_queue::of(events);
  const auto behind = ours.attach(core_fabric);
  if (!behind) return behind.code();
  const int ret = core.ops->bind(&core, &(*behind)->fid, flags);
  if (ret == 0) hold = child_count::ref(ours.bound());
  return ret;
}

msg_endpoint::msg_endpoint(msg_domain& parent, void* user_context) noexcept
    : fid_ep{.fid = {.fclass = FI_CLASS_EP, .context = user_context, .ops = &msg_ep_fid_ops},
             .ops = &msg_ep_ops,
             .cm = nullptr,
             .msg = nullptr,
             .rma = nullptr,
             .tagged = nullptr,
             .atomic = nullptr,
             .collective = &no_collectives},
      devices_(parent.context().devices),
      hold_(parent.open_children()),
      core_fabric_(parent.core_fabric()) {}

void msg_endpoint::adopt(fid_ep* core) noexcept {
  core_.reset(core);
  // A core without some kind of operation has no table for it.
  if (core->cm) cm = &msg_ep_cm_ops;
  if (core->msg) msg = &msg_ep_msg_ops;
  if (core->rma) rma = &msg_ep_rma_ops;
  if (core->tagged) tagged = &msg_ep_tagged_ops;
  if (core->atomic) atomic = &msg_ep_atomic_ops;
}

int msg_endpoint::bind(fid_t other, std::uint64_t flags) {
  if (other->fclass != FI_CLASS_EQ) return core_->fid.ops->bind(&core_->fid, other, flags);
  return bind_events(core_->fid, core_fabric_, other, flags, events_hold_);
}

int msg_endpoint::open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->ep_attr || !out || info->ep_attr->type != FI_EP_MSG) return -FI_EINVAL;
    msg_domain& parent = msg_domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    const core::unique_info core_info = core_info_behind(*info);
    if (!core_info) return -FI_ENOMEM;
    std::unique_ptr<msg_endpoint> self(new msg_endpoint(parent, context));
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
