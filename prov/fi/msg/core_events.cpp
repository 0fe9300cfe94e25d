// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/core_events.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/msg/passive_base.hpp"

namespace gaudi::fi {
namespace {

/// Ours for an endpoint of the core's, which was opened with it as its context; other objects of
/// the core's are the application's as they are.
fid* ours(fid* core) noexcept {
  if (!core || (core->fclass != FI_CLASS_EP && core->fclass != FI_CLASS_PEP)) return core;
  return static_cast<fid*>(core->context);
}

/// 0, or -FI_ENOMEM: the application cannot be shown that request.
int translate(std::uint32_t event, fi_eq_cm_entry& entry) noexcept {
  entry.fid = ours(entry.fid);
  if (event != FI_CONNREQ || !entry.info) return 0;
  return guarded_int([&] {
    passive_base::of(entry.fid).present(*entry.info);
    return 0;
  });
}

}  // namespace

base::result<std::unique_ptr<event_source>> core_events::open(fid_fabric* fabric, std::size_t size,
                                                              bool waitable) {
  fi_eq_attr attr{};
  attr.size = size;
  attr.wait_obj = waitable ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_eq* queue = nullptr;
  if (const int ret = fi_eq_open(fabric, &attr, &queue, nullptr)) {
    GAUDI_WARN(EQ, "the core cannot open an event queue: %s\n", fi_strerror(-ret));
    return base::error{ret};
  }
  std::unique_ptr<core_events> self(new core_events(fabric, queue));
  if (waitable) {
    if (const int ret = fi_control(&queue->fid, FI_GETWAIT, &self->wait_fd_)) {
      GAUDI_WARN(EQ, "the core's event queue has no file descriptor: %s\n", fi_strerror(-ret));
      return base::error{ret};
    }
  }
  return std::unique_ptr<event_source>(std::move(self));
}

ssize_t core_events::read(std::uint32_t* event, void* buf, std::size_t len,
                          std::uint64_t flags) noexcept {
  const ssize_t ret = fi_eq_read(queue_.get(), event, buf, len, flags);
  if (ret < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return ret;
  auto& entry = *static_cast<fi_eq_cm_entry*>(buf);
  const int failure = translate(*event, entry);
  if (failure == 0) return ret;
  // Nobody else would answer who asks; one that is only looked at is still there.
  if (!(flags & FI_PEEK)) passive_base::of(entry.fid).refuse(core::unique_info(entry.info));
  return failure;
}

ssize_t core_events::read_error(fi_eq_err_entry* buf, std::uint64_t flags) noexcept {
  const ssize_t ret = fi_eq_readerr(queue_.get(), buf, flags);
  if (ret <= 0 || !buf->fid) return ret;
  fid* const own = ours(buf->fid);
  // An entry names the context of its object, which at the core is ours.
  if (own != buf->fid) buf->context = own->context;
  buf->fid = own;
  return ret;
}

int core_events::try_wait() noexcept {
  fid* one = &queue_->fid;
  return fabric_->ops->trywait(fabric_, &one, 1);
}

}  // namespace gaudi::fi
