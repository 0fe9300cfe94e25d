// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/flush_page.hpp"

#include <utility>

#include "reg/dmabuf_registrar.hpp"

namespace gaudi::reg {
namespace {

constexpr std::uint64_t flush_page_size = 4096;

}  // namespace

flush_page::flush_page(device::device& on) : device_(on.shared_from_this()) {
  device_->add_observer(*this);
}

flush_page::~flush_page() {
  device_->remove_observer(*this);
  mr_ = {};  // before the memory
  if (address_ != 0) static_cast<void>(device_->free(address_));
}

base::result<void> flush_page::prepare(core::inner_domain& core) {
  failed_for_good_ = false;
  {
    const base::scoped_lock lock(mutex_);
    if (mr_) return {};
  }
  if (address_ == 0) {
    const auto address = device_->allocate(flush_page_size, device::purpose::internal);
    if (!address) return address.failure();
    address_ = *address;
  }
  const auto where = device_->find(address_, flush_page_size);
  auto tried = where ? try_to_register(core, *device_, *where, FI_REMOTE_READ)
                     : dmabuf_attempt{{}, where.code()};
  if (tried.code != 0) {
    failed_for_good_ = tried.why.final;
    static_cast<void>(device_->free(std::exchange(address_, 0)));
    return base::error{tried.code};
  }
  // A loss that came meanwhile has found nothing to end.
  const base::scoped_lock lock(mutex_);
  if (const int gone = device_->lost(); gone != 0) return base::error{gone};
  mr_ = std::move(tried.mr);
  return {};
}

base::result<void> flush_page::read(nic_loopback& loop, void* to, void* descriptor) {
  const base::scoped_lock lock(mutex_);
  if (const int gone = device_->lost(); gone != 0) return base::error{gone};
  return loop.read(to, descriptor, 1, address_, mr_.key());
}

// What the NIC has of it keeps the device open for the driver.
void flush_page::device_lost() noexcept {
  const base::scoped_lock lock(mutex_);
  mr_ = {};
}

}  // namespace gaudi::reg
