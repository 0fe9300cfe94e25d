// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/fabric.hpp"

#include <rdma/fi_errno.h>

#include <memory>
#include <span>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "fi/domain.hpp"
#include "fi/eq.hpp"
#include "fi/guard.hpp"
#include "fi/msg_endpoint.hpp"
#include "fi/tables.hpp"

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
  return domain_open(f, info, out, context);
}

int open_domain_with_flags(fid_fabric* f, fi_info* info, fid_domain** out, std::uint64_t flags,
                           void* context) noexcept {
  if (flags != 0) return -FI_ENOSYS;
  return domain_open(f, info, out, context);
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

fabric::fabric(std::uint32_t version, const provider_context& context, void* user_context) noexcept
    : fid_fabric{.fid = {.fclass = FI_CLASS_FABRIC,
                         .context = user_context,
                         .ops = &fabric_fid_ops},
                 .ops = &fabric_ops,
                 .api_version = version},
      context_(context) {}

base::result<fid_fabric*> fabric::core_fabric(fi_fabric_attr& attr) {
  const base::scoped_lock lock(core_mutex_);
  std::string name = std::string(attr.prov_name) + ' ' + (attr.name ? attr.name : "");
  if (core_) {
    if (name == core_name_) return core_.get();
    GAUDI_WARN(FABRIC, "this fabric is in use for '%s' of the core; open another one for '%s'\n",
               core_name_.c_str(), name.c_str());
    return base::error{-FI_EINVAL};
  }
  fid_fabric* opened = nullptr;
  if (const int ret = fi_fabric(&attr, &opened, nullptr)) {
    GAUDI_WARN(FABRIC, "core provider %s cannot open its fabric %s: %s\n", attr.prov_name,
               attr.name ? attr.name : "", fi_strerror(-ret));
    return base::error{ret};
  }
  core_.reset(opened);
  core_name_ = std::move(name);
  return opened;
}

int fabric::try_wait_at_core(fid_t* one) noexcept {
  const base::scoped_lock lock(core_mutex_);
  fid_fabric* const core = core_.get();
  return core ? core->ops->trywait(core, one, 1) : -FI_ENOSYS;
}

int fabric_open(fi_fabric_attr* attr, fid_fabric** out, void* context) noexcept {
  return guarded_int([&] {
    *out = new fabric(attr ? attr->api_version : 0, provider_context::of_process(), context);
    return 0;
  });
}

}  // namespace gaudi::fi
