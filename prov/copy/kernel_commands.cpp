// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/kernel_commands.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace gaudi::copy {

using base::error;
using base::result;

result<kernel_commands> kernel_commands::request(std::shared_ptr<device::device> owner,
                                                 std::uint32_t len) {
  const auto handle = owner->thunk().request_commands(owner->fd(), len);
  if (!handle) return error{owner->cause_of(handle.code())};
  const int fd = owner->fd();
  kernel_commands made(std::move(owner), *handle, len);
  void* const at =
      mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(*handle));
  if (at == MAP_FAILED) return error{-errno};
  made.data_ = static_cast<std::byte*>(at);
  // The driver's mapping says so by itself; the stand-in's does not.
  if (madvise(at, len, MADV_DONTFORK) != 0) return error{-errno};
  return made;
}

kernel_commands::kernel_commands(kernel_commands&& other) noexcept
    : owner_(std::move(other.owner_)),
      handle_(other.handle_),
      len_(other.len_),
      data_(std::exchange(other.data_, nullptr)) {}

kernel_commands::~kernel_commands() {
  if (!owner_) return;
  if (data_ != nullptr) munmap(data_, len_);
  if (owner_->lost() != 0) return;  // the handle may be one of its successor's
  if (const auto rc = owner_->thunk().destroy_commands(owner_->fd(), handle_); !rc)
    GAUDI_DEBUG(CORE, "cannot destroy a command buffer of %s: %s\n",
                owner_->attributes().bus_id.c_str(), fi_strerror(-rc.code()));
}

void kernel_commands::abandon() const noexcept {
  const void* const at =
      mmap(data_, len_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED)
    GAUDI_DEBUG(CORE, "a command buffer keeps %s open: %s\n", owner_->attributes().bus_id.c_str(),
                fi_strerror(errno));
}

}  // namespace gaudi::copy
