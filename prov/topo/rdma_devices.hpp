// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::topo {

/// Names of the RDMA devices that the kernel shows ("mlx5_0", ...), sorted; empty where there are
/// none or `root` cannot be read. `root` is a folder with an entry per device, another one than
/// sysfs only in tests.
std::vector<std::string> rdma_devices(const std::filesystem::path& root = "/sys/class/infiniband");

}  // namespace gaudi::topo
