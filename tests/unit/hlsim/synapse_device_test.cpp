// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The stand-ins for libSynapse and libscal: devices and device memory.
#include <gtest/gtest.h>

#include "acquired.hpp"
#include "sharing.hpp"

namespace hlsim_test {
namespace {

TEST(synapse, wants_to_be_initialised_once) {
  simulate({}, [] {
    synDeviceId id = 0;
    uint32_t count = 0;
    EXPECT_EQ(synDeviceAcquire(&id, nullptr), synUninitialized);
    EXPECT_EQ(synDeviceGetCount(&count), synUninitialized);
    EXPECT_EQ(synDestroy(), synUninitialized);
    EXPECT_EQ(synInitialize(), synSuccess);
    EXPECT_EQ(synInitialize(), synAlreadyInitialized);
    EXPECT_EQ(synDestroy(), synSuccess);
    EXPECT_EQ(synInitialize(), synSuccess);
  });
}

TEST(synapse, counts_devices_without_acquiring_one) {
  simulate({{"HLSIM_DEVICES", "3"}}, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    uint32_t count = 0, ids[4] = {9, 9, 9, 9};
    EXPECT_EQ(synDeviceGetCount(&count), synSuccess);
    EXPECT_EQ(count, 3U);
    count = 2;
    EXPECT_EQ(synDeviceGetModuleIDs(ids, &count), synInvalidArgument);
    count = 4;
    EXPECT_EQ(synDeviceGetModuleIDs(ids, &count), synSuccess);
    EXPECT_EQ(count, 3U);
    EXPECT_EQ(ids[2], 2U);
  });
}

TEST(synapse, says_without_a_device_that_there_is_none) {
  simulate({}, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    synDeviceInfo info{};
    synDeviceInfoV2 more{};
    uint64_t address = 0;
    int host = 0;
    synStreamHandle stream = nullptr;
    EXPECT_EQ(synDeviceGetInfo(0, &info), synFail);
    EXPECT_EQ(synDeviceGetInfoV2(0, &more), synFail);
    EXPECT_EQ(synDeviceMalloc(0, 4096, 0, 0, &address), synFail);
    EXPECT_EQ(synHostMap(0, sizeof host, &host), synInvalidArgument);
    EXPECT_EQ(synStreamCreateGeneric(&stream, 0, 0), synFail);
    EXPECT_EQ(synDeviceRelease(0), synNoDeviceFound);
  });
}

TEST(synapse, has_one_device_at_a_time) {
  simulate({}, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    synDeviceId id = 77;
    EXPECT_EQ(synDeviceAcquireByModuleId(&id, 5), synNoDeviceFound);
    EXPECT_EQ(id, UINT32_MAX);
    EXPECT_EQ(synDeviceAcquireByModuleId(&id, 1), synSuccess);
    EXPECT_EQ(id, 0U);
    EXPECT_EQ(synDeviceAcquireByModuleId(&id, 0), synDeviceAlreadyAcquired);
    char bus[13] = "";
    EXPECT_EQ(synDeviceGetPCIBusId(bus, sizeof bus, id), synSuccess);
    EXPECT_STREQ(bus, "0000:1a:00.0");
    EXPECT_EQ(synDeviceRelease(id), synSuccess);
    EXPECT_EQ(synDeviceRelease(id), synNoDeviceFound);
    EXPECT_EQ(synDeviceAcquire(&id, "0000:19:00.0"), synSuccess);
  });
}

TEST(synapse, is_refused_a_device_of_another_process) {
  const scratch_folder folder;
  const channel talk;
  const environment one_device{{"HLSIM_DEVICES", "1"}};
  const pid_t holder = start(folder.path(), one_device, [&] {
    const open_device device;
    talk.signal(1);
    talk.await(1);
  });
  ASSERT_TRUE(talk.await(0));
  const pid_t other = start(folder.path(), one_device, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    synDeviceId id = 0;
    EXPECT_EQ(synDeviceAcquire(&id, nullptr), synNoDeviceFound);
    EXPECT_EQ(synDeviceAcquireByModuleId(&id, 0), synNoDeviceFound);
    EXPECT_EQ(synDeviceAcquire(&id, "0000:19:00.0"), synFail);
    EXPECT_EQ(synDeviceAcquire(&id, "0000:77:00.0"), synNoDeviceFound);
  });
  EXPECT_TRUE(succeeded(other));
  talk.signal(0);
  EXPECT_TRUE(succeeded(holder));
}

TEST(synapse, waits_for_the_reset_after_a_release) {
  simulate({{"HLSIM_RELEASE_MS", "50"}}, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    synDeviceId id = 0;
    ASSERT_EQ(synDeviceAcquireByModuleId(&id, 0), synSuccess);
    ASSERT_EQ(synDeviceRelease(id), synSuccess);
    EXPECT_EQ(synDeviceAcquireByModuleId(&id, 0), synSuccess);
  });
}

TEST(synapse, tells_the_descriptor_whatever_the_id) {
  simulate({}, [] {
    const acquired_device device;
    synDeviceInfo info{};
    ASSERT_EQ(synDeviceGetInfo(UINT32_MAX, &info), synSuccess);
    EXPECT_EQ(hlthunk_get_device_id_from_fd(info.fd), 0x1020U);
    EXPECT_EQ(info.deviceType, synDeviceGaudi2);
    EXPECT_EQ(info.dramSize, 127 * page);
    EXPECT_EQ(device.info().fd, info.fd);
  });
}

TEST(synapse, acquires_a_gaudi3_and_its_pool) {
  simulate({{"HLSIM_GENERATION", "3"}}, [] {
    const acquired_device device;
    const synDeviceInfoV2 info = device.info();
    EXPECT_EQ(info.deviceType, synDeviceGaudi3);
    EXPECT_EQ(info.dramSize, 4064 * 32 * mib);
    const scal_memory_pool_infoV2 pool = global_pool(info.fd);
    EXPECT_EQ(info.globalHbmBaseAddress, pool.device_base_allocated_address);
    EXPECT_GE(pool.device_base_allocated_address, 0x0201E00000000000U) << "where ARCs look";
    EXPECT_GE(device.allocate(4096), pool.device_base_address);
  });
}

TEST(synapse, leaves_a_gaudi1_to_others) {
  simulate({{"HLSIM_GENERATION", "1"}}, [] {
    ASSERT_EQ(synInitialize(), synSuccess);
    synDeviceId id = 0;
    EXPECT_EQ(synDeviceAcquire(&id, nullptr), synUnsupported);
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    EXPECT_GE(fd, 0) << "it was not given back";
    hlthunk_close(fd);
  });
}

TEST(scal, takes_all_of_hbm_and_maps_it_once) {
  simulate({}, [] {
    const acquired_device device;
    const int fd = device.info().fd;
    hlthunk_dram_usage_info usage{};
    ASSERT_EQ(hlthunk_get_dram_usage(fd, &usage), 0);
    EXPECT_EQ(usage.dram_free_mem, 0U);
    EXPECT_EQ(hlthunk_device_memory_alloc(fd, 1, 0, true, false), 0U);

    const scal_memory_pool_infoV2 pool = global_pool(fd);
    EXPECT_STREQ(pool.name, "global_hbm");
    EXPECT_GE(pool.device_base_allocated_address, 0x1001500000000000U);
    EXPECT_LT(pool.device_base_address + pool.totalSize, 0x1001700000000000U);
    EXPECT_GT(pool.device_base_address, pool.device_base_allocated_address);
    const uint64_t own = pool.device_base_address - pool.device_base_allocated_address;
    EXPECT_EQ(pool.totalSize, 127 * page - own - 4096);
    EXPECT_EQ(pool.device_base_allocated_address, device.info().globalHbmBaseAddress);
  });
}

TEST(scal, knows_the_descriptor_and_no_other) {
  simulate({}, [] {
    const acquired_device device;
    const int fd = device.info().fd;
    const int duplicate = ::dup(fd);
    scal_handle_t scal = nullptr;
    scal_pool_handle_t pool = nullptr;
    EXPECT_EQ(scal_get_handle_from_fd(duplicate, &scal), -1);
    ASSERT_EQ(scal_get_handle_from_fd(fd, &scal), 0);
    EXPECT_EQ(scal_get_pool_handle_by_name(scal, "no such pool", &pool), -1);
    ::close(duplicate);
    EXPECT_EQ(synDeviceRelease(device.id), synSuccess);
    EXPECT_EQ(scal_get_handle_from_fd(fd, &scal), -1);
  });
}

TEST(scal, older_and_newer_callers_are_told_the_same) {
  simulate({}, [] {
    const acquired_device device;
    scal_handle_t scal = nullptr;
    scal_pool_handle_t pool = nullptr;
    ASSERT_EQ(scal_get_handle_from_fd(device.info().fd, &scal), 0);
    ASSERT_EQ(scal_get_pool_handle_by_name(scal, "global_hbm", &pool), 0);
    scal_memory_pool_info older{};
    scal_memory_pool_infoV2 newer{};
    ASSERT_EQ(scal_pool_get_info(pool, &older), 0);
    ASSERT_EQ(scal_pool_get_infoV2(pool, &newer), 0);
    EXPECT_EQ(std::memcmp(&older, &newer, sizeof older), 0);
  });
}

TEST(scal, pool_can_be_exported_from_its_offset_on) {
  simulate({}, [] {
    const acquired_device device;
    const int fd = device.info().fd;
    const scal_memory_pool_infoV2 pool = global_pool(fd);
    const int dmabuf = hlthunk_device_mapped_memory_export_dmabuf_fd(
        fd, pool.device_base_allocated_address, pool.totalSize,
        pool.device_base_address - pool.device_base_allocated_address, O_RDWR | O_CLOEXEC);
    EXPECT_GE(dmabuf, 0);
    ::close(dmabuf);
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(fd, pool.device_base_address, 4096, 0,
                                                            O_RDWR | O_CLOEXEC),
              -EINVAL);
  });
}

TEST(synapse_memory, comes_from_the_pool) {
  simulate({}, [] {
    const acquired_device device;
    const scal_memory_pool_infoV2 pool = global_pool(device.info().fd);
    const uint64_t first = device.allocate(100), second = device.allocate(1);
    EXPECT_GE(first, pool.device_base_address);
    EXPECT_LT(second, pool.device_base_address + pool.totalSize);
    EXPECT_EQ(second - first, 128U) << "several on one page";
    uint64_t free = 0, total = 0;
    EXPECT_EQ(synDeviceGetMemoryInfo(device.id, &free, &total), synSuccess);
    EXPECT_EQ(total, pool.totalSize);
    EXPECT_EQ(free, total - 256);
    EXPECT_EQ(synDeviceFree(device.id, first, 0), synSuccess);
    EXPECT_EQ(synDeviceFree(device.id, first, 0), synInvalidArgument);
    EXPECT_EQ(device.allocate(10), first);
  });
}

TEST(synapse_memory, can_be_asked_for_by_address) {
  simulate({}, [] {
    const acquired_device device;
    const uint64_t wanted = device.allocate(128) + (1 << 20);
    uint64_t address = 0;
    EXPECT_EQ(synDeviceMalloc(device.id, 4096, wanted, 0, &address), synSuccess);
    EXPECT_EQ(address, wanted);
    EXPECT_EQ(synDeviceMalloc(device.id, 4096, wanted + 2048, 0, &address), synOutOfDeviceMemory);
    EXPECT_EQ(synDeviceMalloc(device.id, 4096, wanted - 2048, 0, &address), synOutOfDeviceMemory);
  });
}

TEST(synapse_memory, ends_with_the_pool) {
  simulate({{"HLSIM_HBM", "64M"}}, [] {
    const acquired_device device;
    const scal_memory_pool_infoV2 pool = global_pool(device.info().fd);
    uint64_t address = 0;
    EXPECT_EQ(synDeviceMalloc(device.id, pool.totalSize + 1, 0, 0, &address), synOutOfDeviceMemory);
    EXPECT_EQ(device.allocate(pool.totalSize), pool.device_base_address);
    EXPECT_EQ(synDeviceMalloc(device.id, 1, 0, 0, &address), synOutOfDeviceMemory);
    EXPECT_EQ(synDeviceMalloc(device.id, 0, 0, 0, &address), synInvalidArgument);
  });
}

}  // namespace
}  // namespace hlsim_test
