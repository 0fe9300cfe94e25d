// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "model.hpp"
#include "shared_state.hpp"

// Device memory and the device's page tables: reference, sections 2.2, 2.3 and 4. Every function
// needs the state_lock; those that return int give 0 or -errno.

namespace hlsim {

/// Takes ceil(size / page) pages of `page` bytes (a multiple of device_state::page_size), aligned
/// to that, from one block when `contiguous`. ENOMEM, EINVAL (size 0).
int allocate(device_state& state, uint64_t size, uint64_t page, bool contiguous, uint64_t& handle);

/// EINVAL: unknown, or still mapped. The pages freed are no longer referenced by anything.
int free_allocation(device_state& state, uint64_t handle);

/// Maps an allocation. A hint that is unaligned or occupied is ignored. EINVAL, ENOMEM.
int map_device(device_state& state, const model& m, uint64_t handle, uint64_t hint, uint64_t& va);

/// Maps [host, host + size) of process `pid`, whose pages are known to be there.
int map_host(device_state& state, const model& m, uint64_t host, uint64_t size, int pid,
             uint64_t hint, bool force_hint, uint64_t& va);

/// EINVAL unless `key` is exactly what a map function returned. Exports are the caller's business.
int unmap(device_state& state, uint64_t key);

/// The mapping that was returned as `key`, or nullptr.
const mapping* find_key(const device_state& state, uint64_t key) noexcept;

/// The mapping that contains device address `va`, or nullptr.
const mapping* find_address(const device_state& state, uint64_t va) noexcept;

/// The `n`-th page of the allocation `handle`; pages count from 0.
uint32_t page_of(const device_state& state, uint64_t handle, uint64_t n) noexcept;

/// Neighbouring pages of an allocation.
struct page_run {
  uint64_t first, pages;
};

/// All pages of the allocation `handle`.
std::vector<page_run> runs_of(const device_state& state, uint64_t handle);

/// Bytes not allocated, as far as the driver knows.
uint64_t free_bytes(const device_state& state) noexcept;

/// Bytes of HBM for the user.
uint64_t hbm_bytes(const device_state& state) noexcept;

/// What a driver without an MMU for HBM makes of allocation and free: accounts of what the user
/// says, unchecked. EINVAL: size 0.
int account_allocation(device_state& state, uint64_t size);
int account_free(device_state& state, uint64_t size);

}  // namespace hlsim
