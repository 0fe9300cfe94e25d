// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "device/device_registry.hpp"

namespace gaudi::device {

/// Eight simulated Gaudis of this process alone.
class many_devices : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(folder());
    setenv("HLSIM_DIR", folder().c_str(), 1);
    setenv("HLSIM_DEVICES", "8", 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::string folder() {
    return (std::filesystem::temp_directory_path() / ("hlsim-table-" + std::to_string(getpid())))
        .string();
  }
  static device_registry::settings listing(const char* text) {
    return {.library = GAUDI_HLSIM, .device = text};
  }

  std::shared_ptr<device> open(unsigned number, const device_registry::settings& how) {
    const auto found = all_.at(number, how);
    EXPECT_TRUE(found) << found.code();
    return found ? *found : nullptr;
  }
  std::uint64_t allocate(device& on, std::uint64_t length) {
    const auto address = on.allocate(length);
    EXPECT_TRUE(address);
    return address ? *address : 0;
  }
  /// As an application opens it.
  int open_elsewhere(const char* bus_id) {
    const auto library = all_.library(GAUDI_HLSIM);
    const auto fd = library ? (*library)->open(bus_id) : base::result<int>(library.failure());
    EXPECT_TRUE(fd);
    return fd ? *fd : -1;
  }
  void close(int fd) { (*all_.library(GAUDI_HLSIM))->close(fd); }

  device_registry all_;
};

}  // namespace gaudi::device
