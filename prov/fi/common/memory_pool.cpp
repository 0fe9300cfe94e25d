// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/memory_pool.hpp"

#include <rdma/fi_errno.h>

#include <new>

#include "fi/common/device_region.hpp"

namespace gaudi::fi {

base::result<std::unique_ptr<memory_pool>> memory_pool::create(const provider_context& context,
                                                               reg::dmabuf_registrar& dmabufs,
                                                               std::shared_ptr<device::device> on,
                                                               std::uint64_t len,
                                                               std::uint64_t access, carrier by) {
  if (len == 0) return base::error{-FI_EINVAL};
  if (len > on->attributes().hbm_size) return base::error{-FI_ENOMEM};
  std::unique_ptr<memory_pool> made(new memory_pool(context, std::move(on), by));
  reg::region& whole = made->whole_;
  whole.length = device::suballocator::round_up(len);
  whole.access = access;
  const auto base = made->device_->allocate(whole.length);
  if (!base) return base.failure();
  whole.address = *base;
  int ret = -FI_ENOMEM;
  try {
    made->pieces_.add_region(whole.address, whole.length);
    ret = attach_device(context, dmabufs, whole, *made->device_, by);
  } catch (const std::bad_alloc&) {
  }
  if (ret == 0) return made;
  made->free();
  return base::error{ret};
}

int memory_pool::release(reg::dmabuf_registrar& dmabufs) {
  if (!pieces_.is_empty(whole_.address)) return -FI_EBUSY;
  const int ret = free();
  // A region is still there, and the next ones want the registration, too. Without it, they stage.
  if (ret) attach_device(context_, dmabufs, whole_, *device_, carrier_);
  return ret;
}

int memory_pool::free() noexcept {
  whole_.leave_core();
  whole_.pin.reset();
  return device_->free(whole_.address).code();
}

base::result<std::uint64_t> memory_pool::take(std::uint64_t len) {
  if (len == 0) return base::error{-FI_EINVAL};
  if (len > whole_.length) return base::error{-FI_ENOMEM};
  const auto piece = pieces_.allocate(len);
  if (!piece) return base::error{-FI_ENOMEM};
  return piece->base;
}

int memory_pool::give_back(std::uint64_t addr) noexcept {
  return pieces_.free(addr) ? 0 : -FI_EINVAL;
}

}  // namespace gaudi::fi
