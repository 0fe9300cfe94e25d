// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "hlsim.hpp"
#include "session.hpp"

// Devices: reference, section 5.6. What it leaves open is as in the vendor's published source.

using namespace synsim;

namespace {

constexpr auto max_reset = std::chrono::seconds(60);

/// Opens when the reset after somebody's release is over, as Synapse waits for it. The fd, or a
/// negative value.
template <class Open>
int open_patiently(Open open) {
  const auto deadline = std::chrono::steady_clock::now() + max_reset;
  for (;;) {
    const int fd = open();
    const bool is_resetting = fd == -EAGAIN || (fd == -1 && errno == EAGAIN);
    if (!is_resetting || std::chrono::steady_clock::now() > deadline) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// `open` gives a descriptor; where it fails, the answer is `refused`.
template <class Open>
synStatus acquire(synDeviceId* id, synStatus refused, Open open) {
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (!r.initialised) return synUninitialized;
  if (!id) return synInvalidArgument;
  if (r.device) return synDeviceAlreadyAcquired;
  *id = UINT32_MAX;
  const int fd = open_patiently(open);
  if (fd < 0) return refused;
  synStatus why = synSuccess;
  r.device = session::begin(fd, why);
  if (!r.device) return why;
  *id = 0;
  return synSuccess;
}

template <class Info>
void describe(const session& s, Info& info) {
  hlthunk_hw_ip_info hw{};
  hlthunk_get_hw_ip_info(s.fd(), &hw);
  info = {};
  info.sramBaseAddress = hw.sram_base_address;
  info.dramBaseAddress = hw.dram_base_address;
  info.sramSize = hw.sram_size;
  info.dramSize = hw.dram_size;
  info.tpcEnabledMask = hw.tpc_enabled_mask_ext;
  info.dramEnabled = hw.dram_enabled;
  info.fd = s.fd();
  info.deviceType = hlthunk_get_device_name_from_fd(s.fd()) == HLTHUNK_DEVICE_GAUDI3
                        ? synDeviceGaudi3
                        : synDeviceGaudi2;
}

/// Waits for all streams, without the lock: they may belong to other threads.
synStatus synchronise_all() {
  std::vector<uint64_t> last;
  int fd = -1;
  const synStatus rc = with_device(synFail, [&](session& s) {
    last = s.pending();
    fd = s.fd();
    return synSuccess;
  });
  return rc != synSuccess ? rc : wait_for(fd, last);
}

}  // namespace

synStatus synInitialize() {
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (r.initialised) return synAlreadyInitialized;
  r.initialised = true;
  return synSuccess;
}

synStatus synDestroy() {
  synchronise_all();
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (!r.initialised) return synUninitialized;
  r.device.reset();
  r.initialised = false;
  return synSuccess;
}

synStatus synDeviceGetCount(uint32_t* count) {
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (!r.initialised) return synUninitialized;
  if (!count) return synInvalidArgument;
  *count = static_cast<uint32_t>(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE));
  return synSuccess;
}

synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* size) {
  uint32_t count = 0;
  if (const synStatus rc = synDeviceGetCount(&count); rc != synSuccess) return rc;
  if (!ids || !size || *size < count) return synInvalidArgument;
  for (uint32_t i = 0; i < count; ++i) ids[i] = i;
  *size = count;
  return synSuccess;
}

/// Null or empty: whichever is free.
synStatus synDeviceAcquire(synDeviceId* id, const char* bus_id) {
  if (!bus_id || !*bus_id)
    return acquire(id, synNoDeviceFound,
                   [] { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr); });
  const int known = hlthunk_get_device_index_from_pci_bus_id(bus_id);
  return acquire(id, known < 0 ? synNoDeviceFound : synFail,
                 [&] { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id); });
}

synStatus synDeviceAcquireByModuleId(synDeviceId* id, synModuleId module_id) {
  return acquire(id, synNoDeviceFound, [&] { return hlthunk_open_by_module_id(module_id); });
}

synStatus synDeviceRelease(synDeviceId) {
  synchronise_all();
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (!r.initialised) return synUninitialized;
  if (!r.device) return synNoDeviceFound;
  r.device.reset();
  return synSuccess;
}

/// Whatever the id: there is one device.
synStatus synDeviceGetInfo(synDeviceId, synDeviceInfo* info) {
  if (!info) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    describe(s, *info);
    return synSuccess;
  });
}

synStatus synDeviceGetInfoV2(synDeviceId, synDeviceInfoV2* info) {
  if (!info) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    describe(s, *info);
    info->globalHbmBaseAddress = s.pool_info().device_base_allocated_address;
    return synSuccess;
  });
}

synStatus synDeviceGetMemoryInfo(synDeviceId, uint64_t* free, uint64_t* total) {
  if (!free || !total) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    const scal_memory_pool_infoV2 pool = s.pool_info();
    *free = pool.freeSize;
    *total = pool.totalSize;
    return synSuccess;
  });
}

synStatus synDeviceGetPCIBusId(char* text, int size, synDeviceId) {
  if (!text) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    return hlthunk_get_pci_bus_id_from_fd(s.fd(), text, size) == 0 ? synSuccess
                                                                   : synInvalidArgument;
  });
}

synStatus synDeviceSynchronize(synDeviceId) {
  return synchronise_all();
}

const char* synsim_description() {
  return hlsim_description();
}
