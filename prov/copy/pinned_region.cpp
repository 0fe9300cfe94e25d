// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/pinned_region.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"

namespace gaudi::copy {

namespace {

/// The device's address of the range. Synapse's copies take the host's, once it is mapped.
base::result<std::uint64_t> pin(const device::device& on, void* host, std::size_t len) {
  if (on.synapse() == nullptr) return on.thunk().map_host(on.fd(), host, len);
  const auto rc = on.synapse()->map_host(host, len);
  if (!rc) return rc.failure();
  return reinterpret_cast<std::uintptr_t>(host);
}

base::result<void> unpin(const device::device& on, const void* host, std::uint64_t device_va) {
  return on.synapse() != nullptr ? on.synapse()->unmap_host(host)
                                 : on.thunk().unmap(on.fd(), device_va);
}

}  // namespace

base::result<pinned_region> pinned_region::map(std::shared_ptr<device::device> owner, void* host,
                                               std::size_t len) {
  const auto va = pin(*owner, host, len);
  if (!va) return base::error{owner->cause_of(va.code())};
  return pinned_region(std::move(owner), static_cast<std::byte*>(host), len, *va);
}

// With a lost device it is undone already; an application's descriptor may be that of its
// successor, which has mappings of its own at these addresses.
pinned_region::~pinned_region() {
  if (!owner_ || owner_->lost() != 0) return;
  if (const auto rc = unpin(*owner_, host_, device_va_); !rc)
    GAUDI_DEBUG(MR, "cannot unmap host memory from %s: %s\n", owner_->attributes().bus_id.c_str(),
                fi_strerror(-rc.code()));
}

}  // namespace gaudi::copy
