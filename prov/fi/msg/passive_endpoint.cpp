// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/passive_endpoint.hpp"

#include <rdma/fi_errno.h>

#include <memory>
#include <utility>

#include "base/log.hpp"
#include "fi/common/fabric.hpp"
#include "fi/common/forward.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/hmem.hpp"
#include "fi/info/naming.hpp"
#include "fi/msg/bound_events.hpp"
#include "fi/msg/forwarded_fid.hpp"
#include "fi/msg/msg_info.hpp"

namespace gaudi::fi {
namespace {

template <auto Entry>
constexpr auto pep = forward<passive_endpoint, &fid_pep::ops, Entry>;
template <auto Entry>
constexpr auto pep_cm = forward_deferred<passive_endpoint, &fid_pep::cm, Entry>;

padded<fi_ops_ep> passive_ep_ops{{.size = sizeof(fi_ops_ep),
                                  .cancel = not_supported,
                                  .getopt = pep<&fi_ops_ep::getopt>,
                                  .setopt = pep<&fi_ops_ep::setopt>,
                                  .tx_ctx = not_supported,
                                  .rx_ctx = not_supported,
                                  .rx_size_left = not_supported,
                                  .tx_size_left = not_supported}};

fi_ops_cm passive_cm_ops{.size = sizeof(fi_ops_cm),
                         .setname = pep_cm<&fi_ops_cm::setname>,
                         .getname = pep_cm<&fi_ops_cm::getname>,
                         .getpeer = not_supported,
                         .connect = not_supported,
                         .listen = pep_cm<&fi_ops_cm::listen>,
                         .accept = not_supported,
                         .reject = pep_cm<&fi_ops_cm::reject>,
                         .shutdown = not_supported,
                         .join = not_supported};

fi_ops passive_endpoint_fid_ops = endpoint_fid_ops<passive_endpoint>();

}  // namespace

passive_endpoint::passive_endpoint(child_count& parent, fid_fabric* core_fabric,
                                   core::unique_info info, void* user_context) noexcept
    : passive_base({.fid = {.fclass = FI_CLASS_PEP,
                            .context = user_context,
                            .ops = &passive_endpoint_fid_ops},
                    .ops = &passive_ep_ops,
                    .cm = &passive_cm_ops}),
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
