// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/open_fabric.hpp"

#include <rdma/fi_errno.h>

#include <memory>
#include <span>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "fi/common/eq.hpp"
#include "fi/common/fabric.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/msg/open_msg_domain.hpp"
#include "fi/msg/passive_endpoint.hpp"
#include "fi/rdm/open_domain.hpp"

namespace gaudi::fi {
namespace {

int close_fabric(fid* f) noexcept {
  std::unique_ptr<fabric> self(&fabric::of(reinterpret_cast<fid_fabric*>(f)));
  if (self->open_children().any()) {
    GAUDI_INFO(FABRIC, "fabric stays open: close its domains and event queues first\n");
    static_cast<void>(self.release());
    return -FI_EBUSY;
  }
  return 0;
}

int open_domain(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept {
  if (!info || !info->domain_attr || !out) return -FI_EINVAL;
  const bool connected = info->ep_attr && info->ep_attr->type == FI_EP_MSG;
  return connected ? msg_domain_open(f, info, out, context) : domain_open(f, info, out, context);
}

int open_domain_with_flags(fid_fabric* f, fi_info* info, fid_domain** out, std::uint64_t flags,
                           void* context) noexcept {
  if (flags != 0) return -FI_ENOSYS;
  return open_domain(f, info, out, context);
}

int open_event_queue(fid_fabric* f, fi_eq_attr* attr, fid_eq** out, void* context) noexcept {
  return event_queue::open(fabric::of(f).open_children(), attr, out, context);
}

// Queues of connected endpoints are the core's own objects, which do not know our command.
int try_wait(fid_fabric* f, fid** fids, int count) noexcept {
  const base::cancellation_deferred until_it_is_known;
  for (fid*& one : std::span(fids, static_cast<std::size_t>(count < 0 ? 0 : count))) {
    int ret = one->ops->control(one, control_try_wait, nullptr);
    if (ret == -FI_ENOSYS) ret = fabric::of(f).try_wait_at_core(&one);
    if (ret) return ret;
  }
  return 0;
}

fi_ops fabric_fid_ops = only_close<close_fabric>();
fi_ops_fabric fabric_ops{.size = sizeof(fi_ops_fabric),
                         .domain = open_domain,
                         .passive_ep = passive_endpoint::open,
                         .eq_open = open_event_queue,
                         .wait_open = not_supported,
                         .trywait = try_wait,
                         .domain2 = open_domain_with_flags};

}  // namespace

fid_fabric fabric_fid(std::uint32_t version, void* context) noexcept {
  return {.fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops},
          .ops = &fabric_ops,
          .api_version = version};
}

int fabric_open(fi_fabric_attr* attr, fid_fabric** out, void* context) noexcept {
  return guarded_int([&] {
    *out = new fabric(fabric_fid(attr ? attr->api_version : 0, context),
                      provider_context::of_process());
    return 0;
  });
}

}  // namespace gaudi::fi
