// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::topo {

/// Names of the devices of a class ("infiniband", "accel") that the kernel shows, sorted; empty
/// where there are none. `root` is a folder of class folders, another one than sysfs only in tests.
std::vector<std::string> class_devices(std::string_view name,
                                       const std::filesystem::path& root = "/sys/class");

/// RDMA devices ("mlx5_0", "irdma0", ...).
inline std::vector<std::string> rdma_devices(const std::filesystem::path& root = "/sys/class") {
  return class_devices("infiniband", root);
}

}  // namespace gaudi::topo
