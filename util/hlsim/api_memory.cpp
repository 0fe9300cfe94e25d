// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "call.hpp"
#include "exports.hpp"
#include "fault.hpp"
#include "hlsim.hpp"
#include "memory.hpp"
#include "settings.hpp"

// Memory calls: reference, sections 2.2, 2.3, 3 and 4.

using namespace hlsim;

namespace {

constexpr uint64_t host_page_size = 4096;

bool strikes(const context& c, fault which) {
  return fault_set::instance().strikes(which, c.state().index);
}

/// Faults the pages in for writing, as pinning them would; -EFAULT where that cannot be.
int pin(uint64_t host, uint64_t size) {
  const uint64_t first = host / host_page_size * host_page_size;
  void* const at = reinterpret_cast<void*>(first);
  const int rc = ::madvise(at, host - first + size, MADV_POPULATE_WRITE);
  return rc == 0 ? 0 : -EFAULT;
}

/// Gaudi1 has but one kind of address, so the offset must be 0. Linux 6.1 has no export for those
/// with an MMU.
int export_range(const context& c, uint64_t address, uint64_t size, uint64_t offset) {
  const state_lock lock(c.state());
  if (!c.device().physical_hbm) {
    if (current_settings().old_kernel) return -EOPNOTSUPP;
    return export_range(c.state(), c.hbm(), address, size, offset);
  }
  if (offset != 0) return -EINVAL;
  return export_physical(c.state(), c.device(), c.hbm(), address, size);
}

/// As a driver that waits for what does not come.
void wait_while_exports_hang(const context& c) {
  while (strikes(c, fault::export_hang)) {
    ::usleep(1000);
    fault_set::instance().refresh();
  }
}

int export_any(int fd, uint64_t address, uint64_t size, uint64_t offset) {
  return compute_call(fd, [&](context& c) {
    wait_while_exports_hang(c);
    if (strikes(c, fault::no_dmabuf)) return -EOPNOTSUPP;
    if (strikes(c, fault::emfile)) return -EMFILE;
    return export_range(c, address, size, offset);
  });
}

}  // namespace

/// Both page_size and shared are without effect on a Gaudi2. On a Gaudi1 the answer is 0 however it
/// ends, with errno untouched when it ends well.
uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous,
                                     bool) {
  uint64_t handle = 0;
  compute_call(fd, [&](context& c) {
    if (strikes(c, fault::enomem)) return -ENOMEM;
    const state_lock lock(c.state());
    if (c.device().physical_hbm) return account_allocation(c.state(), size);
    if (!c.device().takes_page(page_size)) return -EINVAL;
    const bool chosen = page_size != 0 && c.device().smallest_page != 0;
    return allocate(c.state(), size, chosen ? page_size : c.state().default_page, contiguous,
                    handle);
  });
  return handle;
}

/// On a Gaudi1 the driver looks for a size where the handle is.
int hlthunk_device_memory_free(int fd, uint64_t handle) {
  return compute_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    if (c.device().physical_hbm) return account_free(c.state(), handle);
    const std::vector<page_run> runs = runs_of(c.state(), handle);
    const int rc = free_allocation(c.state(), handle);
    const uint64_t size = c.state().page_size;
    for (const page_run& r : runs)
      if (rc == 0) c.hbm().discard(r.first * size, r.pages * size);
    return rc;
  });
}

uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint) {
  uint64_t va = 0;
  const int rc = compute_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    return map_device(c.state(), c.device(), handle, hint, va);
  });
  return rc == 0 ? va : 0;
}

uint64_t hlthunk_host_memory_map(int fd, void* host, uint64_t hint, uint64_t size) {
  return hlthunk_host_memory_map_flags(fd, host, hint, size, 0);
}

uint64_t hlthunk_host_memory_map_flags(int fd, void* host, uint64_t hint, uint64_t size,
                                       uint32_t flags) {
  uint64_t va = 0;
  const auto address = reinterpret_cast<uint64_t>(host);
  const int rc = compute_call(fd, [&](context& c) {
    if (size == 0 || address + size < address) return -EINVAL;
    if (strikes(c, fault::enomem)) return -ENOMEM;
    if (const int pinned = pin(address, size); pinned != 0) return pinned;
    const bool force = (flags & HL_MEM_FORCE_HINT) != 0;
    const state_lock lock(c.state());
    return map_host(c.state(), c.device(), address, size, ::getpid(), hint, force, va);
  });
  return rc == 0 ? va : 0;
}

int hlthunk_memory_unmap(int fd, uint64_t va) {
  return compute_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    return is_exported(c.state(), va) ? -EINVAL : unmap(c.state(), va);
  });
}

int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t address, uint64_t size, uint32_t) {
  return export_any(fd, address, size, 0);
}

int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t address, uint64_t size,
                                                  uint64_t offset, uint32_t flags) {
  if (flags != (O_RDWR | O_CLOEXEC)) return -EINVAL;
  return export_any(fd, address, size, offset);
}
