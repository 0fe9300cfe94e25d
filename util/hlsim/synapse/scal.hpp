// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "exported.hpp"

// The binary interface of libscal that the stand-in offers, declared in our own words. Source:
// prov/docs/device.md, 6 (layouts measured on x86-64).

using scal_handle_t = struct scal_instance*;
using scal_pool_handle_t = struct scal_pool*;

struct scal_memory_pool_info {
  scal_handle_t scal;
  const char* name;
  unsigned idx;
  uint64_t device_base_address;
  void* host_base_address;
  uint32_t core_base_address;
  uint64_t totalSize;
  uint64_t freeSize;
};
static_assert(sizeof(scal_memory_pool_info) == 64);
static_assert(offsetof(scal_memory_pool_info, name) == 8);
static_assert(offsetof(scal_memory_pool_info, idx) == 16);
static_assert(offsetof(scal_memory_pool_info, device_base_address) == 24);
static_assert(offsetof(scal_memory_pool_info, host_base_address) == 32);
static_assert(offsetof(scal_memory_pool_info, core_base_address) == 40);
static_assert(offsetof(scal_memory_pool_info, totalSize) == 48);
static_assert(offsetof(scal_memory_pool_info, freeSize) == 56);

struct scal_memory_pool_infoV2 {
  scal_handle_t scal;
  const char* name;
  unsigned idx;
  uint64_t device_base_address;
  void* host_base_address;
  uint32_t core_base_address;
  uint64_t totalSize;
  uint64_t freeSize;
  uint64_t device_base_allocated_address;
};
static_assert(sizeof(scal_memory_pool_infoV2) == 72);
static_assert(offsetof(scal_memory_pool_infoV2, freeSize) == 56);
static_assert(offsetof(scal_memory_pool_infoV2, device_base_allocated_address) == 64);

extern "C" {
/// All give 0, or -1 for what they do not know. Handles are good until their instance is ended.
HLSIM_API int scal_get_handle_from_fd(int fd, scal_handle_t* scal);
HLSIM_API int scal_get_pool_handle_by_name(scal_handle_t scal, const char* name,
                                           scal_pool_handle_t* pool);
HLSIM_API int scal_pool_get_info(scal_pool_handle_t pool, scal_memory_pool_info* info);
HLSIM_API int scal_pool_get_infoV2(scal_pool_handle_t pool, scal_memory_pool_infoV2* info);

// Not part of libscal: for the stand-in of libSynapse, whose real one uses more of SCAL.

/// Takes the whole HBM of the device that `fd` has open, and cuts pools from it. `fd` stays the
/// caller's. 0 or -errno.
HLSIM_API int hlsim_scal_begin(int fd, scal_handle_t* scal);
/// Gives it back; all that was allocated is gone. 0, or -errno where somebody still holds an
/// export: then the memory goes with the descriptor.
HLSIM_API int hlsim_scal_end(scal_handle_t scal);
/// `size` bytes (> 0) of a pool, at `wanted` if that is not 0. The address; 0: no room there.
HLSIM_API uint64_t hlsim_scal_take(scal_pool_handle_t pool, uint64_t size, uint64_t wanted);
/// False: nothing was taken at `address`.
HLSIM_API bool hlsim_scal_give(scal_pool_handle_t pool, uint64_t address);
}
