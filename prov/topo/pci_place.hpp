// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::topo {

/// Where a PCI function sits in its machine. hwloc would tell the same, for the whole machine and
/// in each process of a job; two links of sysfs answer what is asked here.
struct pci_place {
  /// From the host bridge to the function itself: "pci0000:15", "0000:15:01.0", ...,
  /// "0000:19:00.0". Empty: not known, or not on PCI (soft-RoCE, the stand-in's devices).
  std::vector<std::string> path;
  int numa_node = -1;  ///< -1: not known, or the machine has only one

  [[nodiscard]] bool known() const noexcept { return !path.empty(); }
  /// The function's PCI address, empty where the place is not known.
  [[nodiscard]] std::string_view bus_id() const noexcept {
    return known() ? std::string_view(path.back()) : std::string_view();
  }
};

/// Of a function by its address ("0000:19:00.0"). `sysfs` is where sysfs is mounted, another folder
/// in tests.
pci_place place_of_function(const std::string& bus_id, const std::filesystem::path& sysfs = "/sys");

/// Of a NIC by the name of its RDMA device ("mlx5_0") or network interface ("eth0"), which is also
/// what libfabric's verbs and tcp providers name their domains after.
pci_place place_of_nic(const std::string& name, const std::filesystem::path& sysfs = "/sys");

}  // namespace gaudi::topo
