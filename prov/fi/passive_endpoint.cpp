// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fi_errno.h>

#include <memory>

#include "base/log.hpp"
#include "fi/fabric.hpp"
#include "fi/guard.hpp"
#include "fi/info.hpp"
#include "fi/msg_endpoint.hpp"
#include "fi/msg_info.hpp"
#include "fi/msg_tables.hpp"
#include "fi/naming.hpp"

namespace gaudi::fi {
namespace {

fi_ops passive_endpoint_fid_ops = endpoint_fid_ops<passive_endpoint>();

}  // namespace

passive_endpoint::passive_endpoint(child_count& parent, fid_fabric* core_fabric,
                                   core::unique_info info, void* user_context) noexcept
    : fid_pep{.fid = {.fclass = FI_CLASS_PEP,
                      .context = user_context,
                      .ops = &passive_endpoint_fid_ops},
              .ops = &passive_ep_ops,
              .cm = &passive_cm_ops},
      hold_(parent),
      core_fabric_(core_fabric),
      info_(std::move(info)) {}

int passive_endpoint::bind(fid_t other, std::uint64_t flags) {
  if (other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  return bind_events(core_->fid, core_fabric_, other, flags, events_hold_);
}

void passive_endpoint::present(fi_info& request) const {
  present_as_ours(request, has_hmem(*info_), naming_of(*info_));
  const char* name = info_->fabric_attr->prov_name;
  if (name) replace(request.fabric_attr->prov_name, name);
}

void passive_endpoint::refuse(core::unique_info request) const noexcept {
  const int ret = fi_reject(core(), request->handle, nullptr, 0);
  if (ret) GAUDI_WARN(EP_CTRL, "a request cannot be refused: %s\n", fi_strerror(-ret));
}

int passive_endpoint::open(fid_fabric* f, fi_info* info, fid_pep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->ep_attr || !out || info->ep_attr->type != FI_EP_MSG) return -FI_EINVAL;
    core::unique_info core_info = core_info_behind(*info);
    core::unique_info own(fi_dupinfo(info));
    if (!core_info || !own) return -FI_ENOMEM;
    const auto core_fabric = fabric::of(f).core_fabric(*core_info->fabric_attr);
    if (!core_fabric) return core_fabric.code();
    std::unique_ptr<passive_endpoint> self(
        new passive_endpoint(fabric::of(f).open_children(), *core_fabric, std::move(own), context));
    fid_pep* opened = nullptr;
    if (const int ret = fi_passive_ep(*core_fabric, core_info.get(), &opened, &self->fid))
      return ret;
    self->core_.reset(opened);
    *out = self.release();
    return 0;
  });
}

}  // namespace gaudi::fi
