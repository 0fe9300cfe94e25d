// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/device_region.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "base/params.hpp"
#include "device/table.hpp"
#include "fi/any_domain.hpp"

namespace gaudi::fi {
namespace {

// What the core lets peers do in our own transfers: a rendezvous reads from the sender's memory or
// writes to the receiver's.
std::uint64_t transfer_access(std::uint64_t access) {
  return (access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) | (access & FI_SEND ? FI_REMOTE_READ : 0) |
         (access & FI_RECV ? FI_REMOTE_WRITE : 0);
}

// Lets the NIC at it where it can; else the data is staged.
int attach_core(reg::dmabuf_registrar& dmabufs, reg::region& r) {
  r.transfer_access = transfer_access(r.access);
  auto own = dmabufs.obtain(*r.owner, r.pin->where(), r.transfer_access);
  if (!own) return own.code();
  r.transfers = *std::move(own);
  if (r.remote_access() == 0 || r.key_names_transfers()) return 0;
  auto named = dmabufs.obtain(*r.owner, r.pin->where(), r.remote_access());
  if (!named) return named.code();
  r.by_key = *std::move(named);
  return 0;
}

// The device in use, without a lock where there is one already.
base::result<std::shared_ptr<device::device>> device_in_use() {
  device::device* const opened = device::table::instance().in_use();
  return opened ? opened->shared_from_this() : any_domain::current_device();
}

}  // namespace

reg::cache_limits cache_limits() noexcept {
  const base::params& p = base::params::get();
  return {.count = p.mr_cache_max_count, .bytes = p.mr_cache_max_size};
}

int attach_device(reg::dmabuf_registrar& dmabufs, reg::region& r) {
  if (!device::may_be_device_address(r.address)) {
    GAUDI_WARN(
        MR, "0x%lx+%zu was registered as Gaudi memory (FI_HMEM_SYNAPSEAI) but is a host address\n",
        r.address, r.length);
    return -FI_EINVAL;
  }
  auto current = device_in_use();
  if (!current) return current.code();
  auto pin = (*current)->pin(r.address, r.length);
  if (!pin) {
    GAUDI_WARN(MR, "0x%lx+%zu is not inside one allocation of %s %s known to this process%s\n",
               r.address, r.length, (*current)->attributes().name.c_str(),
               (*current)->attributes().bus_id.c_str(),
               pin.code() == -FI_EINVAL ? ": it crosses the allocation's end"
                                        : ": adopt it through fi_ext_gaudi.h");
    return -FI_EINVAL;
  }
  r.pin.emplace(*std::move(pin));
  r.owner = *std::move(current);
  return attach_core(dmabufs, r);
}

}  // namespace gaudi::fi
