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

/// Whether an RDMA device is a Gaudi's own network ports ("hbl_0", "hlib_0"): these are wired to
/// other Gaudis, serve Habana's collectives alone, and are no NICs of the host. Told by the name
/// that the driver gives, and by the PCI function that it belongs to.
bool is_gaudi_port(const std::string& name, const std::filesystem::path& root = "/sys/class");

/// RDMA devices of the host ("mlx5_0", "irdma0", ...), without Gaudis' own ports.
std::vector<std::string> rdma_devices(const std::filesystem::path& root = "/sys/class");

}  // namespace gaudi::topo
