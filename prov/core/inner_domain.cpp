// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/inner_domain.hpp"

#include <rdma/fi_errno.h>

#include <cstring>

#include "base/log.hpp"

namespace gaudi::core {

base::result<std::unique_ptr<inner_domain>> inner_domain::open(unique_info info) {
  std::unique_ptr<inner_domain> self(new inner_domain);
  self->info_ = std::move(info);

  fid_fabric* fabric = nullptr;
  if (const int ret = fi_fabric(self->info_->fabric_attr, &fabric, nullptr)) {
    GAUDI_WARN(DOMAIN, "core provider %s cannot open its fabric %s: %s\n",
               self->info_->fabric_attr->prov_name, self->info_->fabric_attr->name,
               fi_strerror(-ret));
    return base::error{ret};
  }
  self->fabric_.reset(fabric);

  // tcp reports no mode at all where these are offered, and would then take keys and offsets from
  // us; with them set it behaves as verbs does.
  self->info_->domain_attr->mr_mode |= FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  fid_domain* domain = nullptr;
  if (const int ret = fi_domain(fabric, self->info_.get(), &domain, nullptr)) {
    GAUDI_WARN(DOMAIN, "core provider %s cannot open its domain %s: %s\n",
               self->info_->fabric_attr->prov_name, self->info_->domain_attr->name,
               fi_strerror(-ret));
    return base::error{ret};
  }
  self->domain_.reset(domain);

  self->needs_local_mr_ = (self->info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  return self;
}

base::result<inner_mr> inner_domain::register_memory(void* base, std::size_t length,
                                                     std::uint64_t access) {
  fid_mr* mr = nullptr;
  const int ret = fi_mr_reg(domain_.get(), base, length, access, 0, 0, 0, &mr, nullptr);
  if (ret) return base::error{ret};
  return inner_mr(unique_fid<fid_mr>(mr));
}

}  // namespace gaudi::core
