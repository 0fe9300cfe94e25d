// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/pinned_region.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"

namespace gaudi::copy {

base::result<pinned_region> pinned_region::map(std::shared_ptr<device::device> owner, void* host,
                                               std::size_t len) {
  const auto va = owner->thunk().map_host(owner->fd(), host, len);
  if (!va) return base::error{owner->cause_of(va.code())};
  return pinned_region(std::move(owner), static_cast<std::byte*>(host), len, *va);
}

pinned_region::~pinned_region() {
  if (!owner_) return;
  if (const auto rc = owner_->thunk().unmap(owner_->fd(), device_va_); !rc)
    GAUDI_DEBUG(MR, "cannot unmap host memory from %s: %s\n", owner_->attributes().bus_id.c_str(),
                fi_strerror(-rc.code()));
}

}  // namespace gaudi::copy
