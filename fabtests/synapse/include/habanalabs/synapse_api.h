/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What upstream's fabtests use of libSynapse's interface, in our own words, to build them where the
 * vendor's header is not. The layout is the one that util/hlsim/synapse checks.
 */
#ifndef SYNAPSE_API_H
#define SYNAPSE_API_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t synDeviceId;
typedef uint32_t synModuleId;
typedef struct synStream *synStreamHandle;

typedef enum {
	synSuccess = 0,
} synStatus;

typedef enum {
	HOST_TO_DRAM = 0,
	DRAM_TO_HOST = 1,
} synDmaDir;

typedef struct {
	uint64_t sramBaseAddress;
	uint64_t dramBaseAddress;
	uint32_t sramSize;
	uint64_t dramSize;
	uint64_t tpcEnabledMask;
	uint8_t	 dramEnabled;
	uint32_t deviceId;
	int	 fd;
	int	 deviceType;
	uint8_t	 deviceIndex;
	uint64_t globalHbmBaseAddress;
} synDeviceInfoV2;

_Static_assert(sizeof(synDeviceInfoV2) == 72, "as measured");
_Static_assert(offsetof(synDeviceInfoV2, fd) == 48, "as measured");
_Static_assert(offsetof(synDeviceInfoV2, globalHbmBaseAddress) == 64, "as measured");

#endif /* SYNAPSE_API_H */
