// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <system_error>

#include "collect.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string driver_of(const fs::path& nic) {
  std::error_code failure;
  const fs::path driver = fs::canonical(nic / "device" / "driver", failure);
  if (!failure) return driver.filename().string();
  // Soft-RoCE has no function on a bus, but names the interface it runs on.
  const std::string parent = line_of(nic / "parent");
  return parent.empty() ? "" : fmt::format("rdma_rxe on {}", parent);
}

/// "4: ACTIVE" is the kernel's way to say it.
std::string link_of(const fs::path& port) {
  const std::string state = line_of(port / "state");
  const auto colon = state.find(": ");
  return colon == std::string::npos ? "no port" : state.substr(colon + 2);
}

}  // namespace

std::vector<nic_fact> collect_nics(const fs::path& sysfs) {
  std::vector<nic_fact> found;
  for (const auto& name : topo::rdma_devices(sysfs / "class")) {
    const fs::path nic = sysfs / "class/infiniband" / name;
    found.push_back({.name = name,
                     .driver = driver_of(nic),
                     .link = link_of(nic / "ports/1"),
                     .rate = line_of(nic / "ports/1/rate"),
                     .layer = line_of(nic / "ports/1/link_layer"),
                     .place = topo::place_of_nic(name, sysfs)});
  }
  return found;
}

}  // namespace gaudi::info
