// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "arena.hpp"
#include "hlsim.hpp"

// SCAL takes all of HBM as one allocation, maps it once, and cuts pools from it. Reference, section
// 6.

struct scal_pool {
  scal_instance* owner;
  const char* name;
  unsigned index;
  uint64_t base, size;
  synsim::arena pieces;
};

struct scal_instance {
  int fd;
  uint64_t handle, base, size;
  std::unique_ptr<scal_pool> global;
};

namespace {

constexpr uint64_t page = 4096;
constexpr const char* global_name = "global_hbm";
constexpr unsigned global_index = 1;

std::mutex mutex;  // guards all instances and their pools
std::vector<std::unique_ptr<scal_instance>>& instances() {
  static auto* const all = new std::vector<std::unique_ptr<scal_instance>>;  // outlives its users
  return *all;
}

/// Where the driver keeps addresses for the mappings of ARC firmware.
uint64_t arc_range(const hlthunk_hw_ip_info& info) {
  constexpr uint64_t gaudi2 = 0x1001500000000000, gaudi3 = 0x0201E00000000000;
  const bool is_gaudi2 = info.device_id == 0x1020;
  return is_gaudi2 ? gaudi2 : gaudi3;
}

/// The first address of that range that the driver takes as a hint: whole pages from the base on.
uint64_t hint_of(const hlthunk_hw_ip_info& info) {
  const uint64_t unit = info.dram_page_size;
  const uint64_t pages = (arc_range(info) - info.dram_base_address + unit - 1) / unit;
  return info.dram_base_address + pages * unit;
}

int take_all(scal_instance& taken) {
  hlthunk_hw_ip_info info{};
  hlthunk_dram_usage_info usage{};
  if (const int rc = hlthunk_get_hw_ip_info(taken.fd, &info); rc != 0) return rc;
  if (const int rc = hlthunk_get_dram_usage(taken.fd, &usage); rc != 0) return rc;
  taken.size = usage.dram_free_mem;
  errno = 0;
  taken.handle = hlthunk_device_memory_alloc(taken.fd, taken.size, 0, true, false);
  if (taken.handle == 0) return errno != 0 ? -errno : -EOPNOTSUPP;  // 0: physical memory
  taken.base = hlthunk_device_memory_map(taken.fd, taken.handle, hint_of(info));
  if (taken.base != 0) return 0;
  const int cause = -errno;
  hlthunk_device_memory_free(taken.fd, taken.handle);
  return cause;
}

/// SCAL's own pools come first, so that the one for everybody does not begin where the mapping
/// does.
void cut_pools(scal_instance& from) {
  constexpr uint64_t most = 64ULL << 20;
  const uint64_t own = std::min(most, from.size / 16) / page * page;
  const uint64_t base = from.base + own, size = from.size - own - page;
  from.global = std::make_unique<scal_pool>(
      scal_pool{&from, global_name, global_index, base, size, synsim::arena(base, size)});
}

template <class Info>
void describe(const scal_pool& pool, Info& info) {
  info = {};
  info.scal = pool.owner;
  info.name = pool.name;
  info.idx = pool.index;
  info.device_base_address = pool.base;
  info.totalSize = pool.size;
  info.freeSize = pool.pieces.free_bytes();
}

}  // namespace

/// By the number of the descriptor: a duplicate of it is not known.
int scal_get_handle_from_fd(int fd, scal_handle_t* scal) {
  if (!scal) return -1;
  const std::lock_guard lock(mutex);
  for (const auto& one : instances())
    if (one->fd == fd) return *scal = one.get(), 0;
  return -1;
}

int scal_get_pool_handle_by_name(scal_handle_t scal, const char* name, scal_pool_handle_t* pool) {
  if (!scal || !name || !pool || std::strcmp(name, global_name) != 0) return -1;
  *pool = scal->global.get();
  return 0;
}

int scal_pool_get_info(scal_pool_handle_t pool, scal_memory_pool_info* info) {
  if (!pool || !info) return -1;
  const std::lock_guard lock(mutex);
  describe(*pool, *info);
  return 0;
}

int scal_pool_get_infoV2(scal_pool_handle_t pool, scal_memory_pool_infoV2* info) {
  if (!pool || !info) return -1;
  const std::lock_guard lock(mutex);
  describe(*pool, *info);
  info->device_base_allocated_address = pool->owner->base;
  return 0;
}

int hlsim_scal_begin(int fd, scal_handle_t* scal) {
  auto made = std::make_unique<scal_instance>(scal_instance{fd, 0, 0, 0, nullptr});
  if (const int rc = take_all(*made); rc != 0) return rc;
  cut_pools(*made);
  const std::lock_guard lock(mutex);
  *scal = made.get();
  instances().push_back(std::move(made));
  return 0;
}

int hlsim_scal_end(scal_handle_t scal) {
  const std::lock_guard lock(mutex);
  int rc = hlthunk_memory_unmap(scal->fd, scal->base);
  if (rc == 0) rc = hlthunk_device_memory_free(scal->fd, scal->handle);
  std::erase_if(instances(), [&](const auto& one) { return one.get() == scal; });
  return rc;
}

uint64_t hlsim_scal_take(scal_pool_handle_t pool, uint64_t size, uint64_t wanted) {
  const std::lock_guard lock(mutex);
  return pool->pieces.take(size, wanted);
}

bool hlsim_scal_give(scal_pool_handle_t pool, uint64_t address) {
  const std::lock_guard lock(mutex);
  return pool->pieces.give(address);
}
