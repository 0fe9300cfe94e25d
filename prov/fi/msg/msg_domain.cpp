// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/msg_domain.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "fi/common/device_region.hpp"
#include "fi/msg/bound_events.hpp"

namespace gaudi::fi {
msg_domain::msg_domain(const fid_domain& own, fabric& parent, fid_fabric* core_fabric, bool hmem,
                       std::unique_ptr<core::inner_domain> core)
    : domain_base(own, parent.context()),
      parent_(parent.open_children()),
      core_fabric_(core_fabric),
      hmem_(hmem),
      core_(std::move(core)),
      counters_(subject_of(*core_)),
      // Nobody could stage it for them.
      dmabufs_(*core_, base::dmabuf_choice::on, cache_limits(context().params),
               windows(context().params), &counters_->registrations) {}

int msg_domain::bind(fid_t other, std::uint64_t flags) {
  if (other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  return bind_events(core()->fid, core_fabric_, other, flags, events_hold_);
}

int msg_domain::close() noexcept {
  if (children_.any()) return -FI_EBUSY;
  {
    const base::scoped_lock lock(dmabufs_mutex_);
    dmabufs_.forget_idle();
  }
  return core_->close();
}

}  // namespace gaudi::fi
