// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/mapping.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "device/suballocator.hpp"

namespace gaudi::device {

using base::error;
using base::result;

mapping::mapping(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t handle,
                 std::uint64_t va, std::uint64_t base, std::uint64_t len, bool physical)
    : thunk_(std::move(thunk)),
      fd_(fd),
      handle_(handle),
      va_(va),
      base_(base),
      len_(len),
      physical_(physical) {}

mapping::mapping(mapping&& other) noexcept
    : thunk_(std::move(other.thunk_)),
      fd_(other.fd_),
      handle_(std::exchange(other.handle_, 0)),
      va_(other.va_),
      base_(other.base_),
      len_(other.len_),
      physical_(other.physical_),
      dmabuf_(std::move(other.dmabuf_)) {}

mapping::~mapping() {
  if (const auto rc = release(); !rc) {
    // Not an error of ours: the driver frees it when the last holder of the dma-buf is gone.
    GAUDI_INFO(MR, "device memory at 0x%llx is still exported when its device closes\n",
               static_cast<unsigned long long>(base_));
  }
}

result<mapping> mapping::allocate(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t len,
                                  std::uint64_t page_size) {
  const std::uint64_t page = page_size == 0 ? suballocator::granule : page_size;
  if (len > UINT64_MAX - page) return error{-FI_ENOMEM};
  const std::uint64_t size = (len + page - 1) / page * page;
  // One physical block makes the shortest scatter list of a dma-buf, but may not be had where pages
  // can.
  auto handle = thunk->allocate(fd, size, true);
  if (!handle && handle.code() == -FI_ENOMEM) handle = thunk->allocate(fd, size, false);
  if (!handle) return handle.failure();
  const auto va = thunk->map(fd, *handle);
  if (!va) {
    if (const auto rc = thunk->free(fd, *handle); !rc)
      GAUDI_WARN(MR, "cannot free unmapped device memory: %s\n", fi_strerror(-rc.code()));
    return va.failure();
  }
  return mapping(std::move(thunk), fd, *handle, *va, *va, size, false);
}

mapping mapping::attach_synapse(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t base,
                                std::uint64_t len, bool physical) {
  return {std::move(thunk), fd, 0, base, base, len, physical};
}

mapping mapping::borrow_part(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t va,
                             std::uint64_t base, std::uint64_t len) {
  return {std::move(thunk), fd, 0, va, base, len, false};
}

result<base::scoped_fd> mapping::export_dmabuf() {
  if (!dmabuf_) {
    const auto exported = physical_ ? thunk_->export_physical(fd_, base_, len_)
                                    : thunk_->export_dmabuf(fd_, va_, len_, base_ - va_);
    if (!exported) return exported.failure();
    dmabuf_.reset(*exported);
  }
  base::scoped_fd copy(fcntl(dmabuf_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return error{-errno};
  return copy;
}

bool mapping::close_dmabuf() noexcept {
  const bool was_open = exported();
  dmabuf_.reset();
  return was_open;
}

result<void> mapping::release() {
  dmabuf_.reset();
  if (handle_ == 0) return {};
  if (const auto rc = thunk_->unmap(fd_, base_); !rc) return rc;
  if (const auto rc = thunk_->free(fd_, std::exchange(handle_, 0)); !rc)
    GAUDI_WARN(MR, "cannot free device memory: %s\n", fi_strerror(-rc.code()));
  return {};
}

void mapping::abandon() noexcept {
  dmabuf_.reset();
  handle_ = 0;
}

}  // namespace gaudi::device
