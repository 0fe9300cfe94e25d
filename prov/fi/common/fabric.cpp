// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/fabric.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/log.hpp"

namespace gaudi::fi {
fabric::fabric(const fid_fabric& own, const provider_context& context) noexcept
    : fid_fabric(own), context_(context) {}

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

}  // namespace gaudi::fi
