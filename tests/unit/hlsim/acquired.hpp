// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstring>
#include <string>

#include "scal.hpp"
#include "simulation.hpp"
#include "synapse.hpp"

namespace hlsim_test {

/// A device of Synapse's with a stream. Expectations fail when it cannot be acquired.
class acquired_device {
 public:
  acquired_device() {
    EXPECT_EQ(synInitialize(), synSuccess);
    EXPECT_EQ(synDeviceAcquire(&id, nullptr), synSuccess);
    EXPECT_EQ(synStreamCreateGeneric(&stream, id, 0), synSuccess);
  }
  ~acquired_device() { EXPECT_EQ(synDestroy(), synSuccess); }
  acquired_device(const acquired_device&) = delete;
  acquired_device& operator=(const acquired_device&) = delete;

  [[nodiscard]] synDeviceInfoV2 info() const {
    synDeviceInfoV2 info{};
    EXPECT_EQ(synDeviceGetInfoV2(id, &info), synSuccess);
    return info;
  }
  [[nodiscard]] uint64_t allocate(uint64_t size) const {
    uint64_t address = 0;
    EXPECT_EQ(synDeviceMalloc(id, size, 0, 0, &address), synSuccess);
    return address;
  }
  [[nodiscard]] char* allocate_host(uint64_t size) const {
    void* buffer = nullptr;
    EXPECT_EQ(synHostMalloc(id, size, 0, &buffer), synSuccess);
    return static_cast<char*>(buffer);
  }
  [[nodiscard]] synStatus copy(uint64_t to, const void* from, uint64_t size) const {
    return synMemCopyAsync(stream, reinterpret_cast<uint64_t>(from), size, to, HOST_TO_DRAM);
  }
  [[nodiscard]] synStatus copy(void* to, uint64_t from, uint64_t size) const {
    return synMemCopyAsync(stream, from, size, reinterpret_cast<uint64_t>(to), DRAM_TO_HOST);
  }
  void synchronise() const { EXPECT_EQ(synStreamSynchronize(stream), synSuccess); }

  synDeviceId id = 77;
  synStreamHandle stream = nullptr;
};

inline scal_memory_pool_infoV2 global_pool(int fd) {
  scal_handle_t scal = nullptr;
  scal_pool_handle_t pool = nullptr;
  scal_memory_pool_infoV2 info{};
  EXPECT_EQ(scal_get_handle_from_fd(fd, &scal), 0);
  EXPECT_EQ(scal_get_pool_handle_by_name(scal, "global_hbm", &pool), 0);
  EXPECT_EQ(scal_pool_get_infoV2(pool, &info), 0);
  return info;
}

}  // namespace hlsim_test
