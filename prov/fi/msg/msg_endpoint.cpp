// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/msg_endpoint.hpp"

#include "fi/msg/bound_events.hpp"

namespace gaudi::fi {
msg_endpoint::msg_endpoint(const fid_ep& own, msg_domain& parent) noexcept
    : fid_ep(own),
      devices_(parent.context().devices),
      hold_(parent.open_children()),
      core_fabric_(parent.core_fabric()) {}

void msg_endpoint::adopt(fid_ep* core) noexcept {
  core_.reset(core);
  // A core without some kind of operation has no table for it.
  if (!core->cm) cm = nullptr;
  if (!core->msg) msg = nullptr;
  if (!core->rma) rma = nullptr;
  if (!core->tagged) tagged = nullptr;
  if (!core->atomic) atomic = nullptr;
}

int msg_endpoint::bind(fid_t other, std::uint64_t flags) {
  if (other->fclass != FI_CLASS_EQ) return core_->fid.ops->bind(&core_->fid, other, flags);
  return bind_events(core_->fid, core_fabric_, other, flags, events_hold_);
}

}  // namespace gaudi::fi
