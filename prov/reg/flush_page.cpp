// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/flush_page.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "reg/dmabuf_registrar.hpp"

namespace gaudi::reg {
namespace {

constexpr std::uint64_t flush_page_size = 4096;

// As if it were an allocation of its own.
device::location page_at(device::location where) noexcept {
  where.base += std::exchange(where.offset, 0);
  where.len = flush_page_size;
  return where;
}

}  // namespace

flush_page::flush_page(device::device& on) : device_(on.shared_from_this()) {
  device_->add_observer(*this);
}

flush_page::~flush_page() {
  device_->remove_observer(*this);
  mr_ = {};  // before the memory
  let_go();
}

base::result<void> flush_page::prepare(core::inner_domain& core) {
  failed_for_good_ = false;
  {
    const base::scoped_lock lock(mutex_);
    if (mr_) return {};
  }
  if (const auto there = choose(); !there) return there;
  auto where = device_->find(address_, flush_page_size);
  if (where) *where = page_at(*where);
  auto tried = where ? try_to_register(core, *device_, *where, FI_REMOTE_READ)
                     : dmabuf_attempt{{}, where.code()};
  if (tried.code != 0) {
    failed_for_good_ = tried.why.final;
    let_go();
    return base::error{tried.code};
  }
  // A loss that came meanwhile has found nothing to end.
  const base::scoped_lock lock(mutex_);
  if (const int gone = device_->lost(); gone != 0) return base::error{gone};
  mr_ = std::move(tried.mr);
  return {};
}

// Synapse's device has no memory to allocate; but all of its pool may be read.
base::result<void> flush_page::choose() {
  if (address_ != 0) return {};
  is_borrowed_ = device_->pool().len >= flush_page_size;
  const auto address = is_borrowed_ ? base::result<std::uint64_t>(device_->pool().base)
                                    : device_->allocate(flush_page_size, device::purpose::internal);
  if (!address) {
    failed_for_good_ = address.code() == -FI_EOPNOTSUPP;
    return address.failure();
  }
  address_ = *address;
  return {};
}

void flush_page::let_go() noexcept {
  const std::uint64_t had = std::exchange(address_, 0);
  if (had != 0 && !is_borrowed_) static_cast<void>(device_->free(had));
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
