// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory of a domain of connected endpoints. The core's registration is all there is: its
// descriptor and its key are the application's.
#include "fi/msg/msg_mr.hpp"

#include <rdma/fi_errno.h>

#include <memory>
#include <optional>

#include "base/log.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/device_region.hpp"
#include "fi/common/forward.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/mr_base.hpp"
#include "fi/msg/msg_domain.hpp"

namespace gaudi::fi {
namespace {

struct device_mr : mr_base<msg_domain> {
  device_mr(msg_domain& d, void* user_context, fi_ops& ops) noexcept
      : mr_base(d, user_context, ops), hold(d.open_children()) {}

  child_count::ref hold;
};

int close_msg_region(fid_t f) noexcept {
  auto* const region = static_cast<device_mr*>(reinterpret_cast<fid_mr*>(f));
  if (region->parent.used_after_fork()) return 0;
  const std::unique_ptr<device_mr> self(region);
  const base::scoped_lock lock(self->parent.dmabufs_mutex());
  self->region.leave_core();
  return 0;
}

// Endpoints need not know regions.
int bind_msg_region(fid_t, fid_t other, std::uint64_t) noexcept {
  return other->fclass == FI_CLASS_EP ? 0 : -FI_ENOSYS;
}
fi_ops msg_mr_fid_ops = region_ops<close_msg_region>(bind_msg_region);

fid_mr* known_to_core(std::unique_ptr<device_mr> mr) noexcept {
  const reg::region& r = mr->region;
  mr->mem_desc = r.transfers->descriptor();
  mr->key = r.by_key ? r.by_key->key() : r.transfers->key();
  return mr.release();
}

// As in mr.cpp.
bool is_device_range(const msg_domain& d, const fi_mr_attr& attr) {
  return attr.iov_count == 1 && attr.mr_iov &&
         d.context().devices.is_surely_device(
             reinterpret_cast<std::uint64_t>(attr.mr_iov->iov_base));
}

int register_device(msg_domain& d, const fi_mr_attr& attr, std::optional<int> requested,
                    fid_mr** out) {
  if (!d.hmem()) {
    GAUDI_WARN(MR, "Gaudi memory cannot be registered in a domain opened without FI_HMEM\n");
    return -FI_EINVAL;
  }
  if (attr.iov_count != 1 || !attr.mr_iov || attr.mr_iov->iov_len == 0) return -FI_EINVAL;
  auto mr = std::make_unique<device_mr>(d, attr.context, msg_mr_fid_ops);
  reg::region& r = mr->region;
  mr->cover(*attr.mr_iov, attr.access);
  r.virtual_address = true;
  const base::scoped_lock lock(d.dmabufs_mutex());
  if (const int ret = attach_device(d.context(), d.dmabufs(), r, requested, carrier::core)) {
    r.leave_core();
    return ret;
  }
  *out = known_to_core(std::move(mr));
  return 0;
}

// What counts is the file: whatever device it is of, and whether the provider knows that or not.
int register_dmabuf(msg_domain& d, const fi_mr_attr& attr, fid_mr** out) {
  const auto part = attr.mr_iov ? part_of_dmabuf(attr) : core::dmabuf_range{};
  if (attr.iov_count != 1 || part.length == 0) return -FI_EINVAL;
  auto mr = std::make_unique<device_mr>(d, attr.context, msg_mr_fid_ops);
  reg::region& r = mr->region;
  mr->cover({reinterpret_cast<void*>(part.base_addr + part.offset), part.length}, attr.access);
  r.virtual_address = true;
  const base::scoped_lock lock(d.dmabufs_mutex());
  if (const int ret = attach_imported(d.context(), d.dmabufs(), r, part, carrier::core)) {
    r.leave_core();
    return ret;
  }
  *out = known_to_core(std::move(mr));
  return 0;
}

int regattr_connected(fid_t f, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) noexcept {
  return guarded_int([&]() -> int {
    if (!attr || !out) return -FI_EINVAL;
    msg_domain& d = msg_domain::of(f);
    if (d.used_after_fork()) return -FI_EOPBADSTATE;
    if (flags & from_dmabuf) return register_dmabuf(d, *attr, out);
    if (attr->iface == FI_HMEM_SYNAPSEAI)
      return register_device(d, *attr, attr->device.synapseai, out);
    if (attr->iface == FI_HMEM_SYSTEM && d.hmem() && is_device_range(d, *attr))
      return register_device(d, *attr, std::nullopt, out);
    return d.core()->mr->regattr(&d.core()->fid, attr, flags, out);
  });
}

template <auto Entry>
constexpr auto mr_cores = forward<msg_domain, &fid_domain::mr, Entry>;

}  // namespace

fi_ops_mr msg_mr_ops{.size = sizeof(fi_ops_mr),
                     .reg = mr_cores<&fi_ops_mr::reg>,
                     .regv = mr_cores<&fi_ops_mr::regv>,
                     .regattr = regattr_connected};

}  // namespace gaudi::fi
