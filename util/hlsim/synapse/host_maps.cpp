// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host_maps.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "hlsim.hpp"

namespace synsim {

host_maps::~host_maps() {
  while (!maps_.empty()) drop(maps_.begin()->first, maps_.begin()->second.own);
}

int host_maps::add(uint64_t host, uint64_t size, bool own) {
  if (maps_.contains(host)) return -EEXIST;
  const uint64_t va = hlthunk_host_memory_map(fd_, reinterpret_cast<void*>(host), 0, size);
  if (va == 0) return -errno;
  maps_[host] = {size, va, own};
  return 0;
}

int host_maps::drop(uint64_t host, bool own) {
  const auto found = maps_.find(host);
  if (found == maps_.end() || found->second.own != own) return -EINVAL;
  hlthunk_memory_unmap(fd_, found->second.va);
  if (own) ::munmap(reinterpret_cast<void*>(host), found->second.size);
  maps_.erase(found);
  return 0;
}

int host_maps::map(uint64_t host, uint64_t size) {
  return host == 0 || size == 0 ? -EINVAL : add(host, size, false);
}

int host_maps::unmap(uint64_t host) {
  return drop(host, false);
}

uint64_t host_maps::allocate(uint64_t size) {
  if (size == 0) return 0;
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 0;
  // As SCAL does: a child that writes would leave the device with the wrong page.
  ::madvise(at, size, MADV_DONTFORK);
  const auto host = reinterpret_cast<uint64_t>(at);
  if (add(host, size, true) == 0) return host;
  ::munmap(at, size);
  return 0;
}

int host_maps::free(uint64_t host) {
  return drop(host, true);
}

uint64_t host_maps::translate(uint64_t host, uint64_t size) const {
  for (auto at = maps_.upper_bound(host); at != maps_.begin();) {
    const auto& [first, found] = *--at;
    if (host - first < found.size && size <= found.size - (host - first))
      return found.va + (host - first);
  }
  return 0;
}

}  // namespace synsim
