// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "exported.hpp"

// The binary interface of libSynapse that the stand-in offers, declared in our own words. Source:
// prov/docs/device.md, 5.6 (layouts measured on x86-64).

using synDeviceId = uint32_t;
using synModuleId = uint32_t;
using synStreamHandle = struct synStream*;
using synEventHandle = struct synEvent*;

enum synStatus : int {
  synSuccess = 0,
  synInvalidArgument = 1,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synNoDeviceFound = 8,
  synDeviceReset = 17,
  synUnsupported = 18,
  synDeviceAlreadyAcquired = 20,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synFail = 26,
  synUninitialized = 28,
  synAlreadyInitialized = 29,
  synInvalidEventHandle = 33,
  synMappingNotFound = 34,
};

enum synDeviceType : int {
  synDeviceGaudi2 = 4,
  synDeviceGaudi3 = 5,
};

enum synDmaDir : int {
  HOST_TO_DRAM = 0,
  DRAM_TO_HOST = 1,
  DRAM_TO_DRAM = 2,
};

struct synDeviceInfo {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  int fd;
  synDeviceType deviceType;
};
static_assert(sizeof(synDeviceInfo) == 56);
static_assert(offsetof(synDeviceInfo, sramSize) == 16);
static_assert(offsetof(synDeviceInfo, dramSize) == 24);
static_assert(offsetof(synDeviceInfo, tpcEnabledMask) == 32);
static_assert(offsetof(synDeviceInfo, dramEnabled) == 40);
static_assert(offsetof(synDeviceInfo, deviceId) == 44);
static_assert(offsetof(synDeviceInfo, fd) == 48);
static_assert(offsetof(synDeviceInfo, deviceType) == 52);

struct synDeviceInfoV2 {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  int fd;
  synDeviceType deviceType;
  uint8_t deviceIndex;
  uint64_t globalHbmBaseAddress;
};
static_assert(sizeof(synDeviceInfoV2) == 72);
static_assert(offsetof(synDeviceInfoV2, fd) == 48);
static_assert(offsetof(synDeviceInfoV2, deviceIndex) == 56);
static_assert(offsetof(synDeviceInfoV2, globalHbmBaseAddress) == 64);

extern "C" {
HLSIM_API synStatus synInitialize();
HLSIM_API synStatus synDestroy();

HLSIM_API synStatus synDeviceGetCount(uint32_t* count);
HLSIM_API synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* size);
HLSIM_API synStatus synDeviceAcquire(synDeviceId* id, const char* bus_id);
HLSIM_API synStatus synDeviceAcquireByModuleId(synDeviceId* id, synModuleId module_id);
HLSIM_API synStatus synDeviceRelease(synDeviceId id);
HLSIM_API synStatus synDeviceGetInfo(synDeviceId id, synDeviceInfo* info);
HLSIM_API synStatus synDeviceGetInfoV2(synDeviceId id, synDeviceInfoV2* info);
HLSIM_API synStatus synDeviceGetMemoryInfo(synDeviceId id, uint64_t* free, uint64_t* total);
HLSIM_API synStatus synDeviceGetPCIBusId(char* text, int size, synDeviceId id);
HLSIM_API synStatus synDeviceSynchronize(synDeviceId id);

HLSIM_API synStatus synDeviceMalloc(synDeviceId id, uint64_t size, uint64_t wanted, uint32_t flags,
                                    uint64_t* address);
HLSIM_API synStatus synDeviceFree(synDeviceId id, uint64_t address, uint32_t flags);
HLSIM_API synStatus synHostMalloc(synDeviceId id, uint64_t size, uint32_t flags, void** buffer);
HLSIM_API synStatus synHostFree(synDeviceId id, const void* buffer, uint32_t flags);
HLSIM_API synStatus synHostMap(synDeviceId id, uint64_t size, const void* buffer);
HLSIM_API synStatus synHostUnmap(synDeviceId id, const void* buffer);

HLSIM_API synStatus synStreamCreateGeneric(synStreamHandle* stream, synDeviceId id, uint32_t flags);
HLSIM_API synStatus synStreamDestroy(synStreamHandle stream);
HLSIM_API synStatus synStreamSynchronize(synStreamHandle stream);
HLSIM_API synStatus synStreamQuery(synStreamHandle stream);
HLSIM_API synStatus synStreamWaitEvent(synStreamHandle stream, synEventHandle event,
                                       uint32_t flags);
HLSIM_API synStatus synEventCreate(synEventHandle* event, synDeviceId id, uint32_t flags);
HLSIM_API synStatus synEventDestroy(synEventHandle event);
HLSIM_API synStatus synEventRecord(synEventHandle event, synStreamHandle stream);
HLSIM_API synStatus synEventQuery(synEventHandle event);
HLSIM_API synStatus synEventSynchronize(synEventHandle event);

HLSIM_API synStatus synMemCopyAsync(synStreamHandle stream, uint64_t source, uint64_t size,
                                    uint64_t destination, synDmaDir direction);
HLSIM_API synStatus synMemCopyAsyncMultiple(synStreamHandle stream, const uint64_t* sources,
                                            const uint64_t* sizes, const uint64_t* destinations,
                                            synDmaDir direction, uint64_t count);
HLSIM_API synStatus synMemsetD8Async(uint64_t address, unsigned char value, size_t count,
                                     synStreamHandle stream);

/// Not part of libSynapse: tells a consumer that it runs on the stand-in. Static storage.
HLSIM_API const char* synsim_description();
}
