// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <charconv>
#include <string>
#include <system_error>

#include "collect.hpp"
#include "file_line.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

std::string driver_of(const fs::path& nic) {
  std::error_code failure;
  const fs::path driver = fs::canonical(nic / "device" / "driver", failure);
  if (!failure) return driver.filename().string();
  // Soft-RoCE has no function on a bus, but names the interface it runs on.
  const std::string parent = first_line(nic / "parent");
  return parent.empty() ? "" : fmt::format("rdma_rxe on {}", parent);
}

/// "4: ACTIVE" is the kernel's way to say it.
std::string link_of(const fs::path& port) {
  const std::string state = first_line(port / "state");
  const auto colon = state.find(": ");
  return colon == std::string::npos ? "no port" : state.substr(colon + 2);
}

/// Of the first port: the device's only one, or the first by name.
std::string interface_of(const fs::path& nic) {
  const auto names = topo::class_devices("net", nic / "device");
  return names.empty() ? first_line(nic / "parent") : names.front();
}

unsigned mtu_of(const fs::path& sysfs, const std::string& interface) {
  if (interface.empty()) return 0;
  const std::string text = first_line(sysfs / "class/net" / interface / "mtu");
  unsigned mtu = 0;
  std::from_chars(text.data(), text.data() + text.size(), mtu);
  return mtu;
}

}  // namespace

std::vector<std::string> collect_gaudi_ports(const fs::path& sysfs) {
  auto names = topo::class_devices("infiniband", sysfs / "class");
  std::erase_if(
      names, [&](const std::string& name) { return !topo::is_gaudi_port(name, sysfs / "class"); });
  return names;
}

std::vector<nic_fact> collect_nics(const fs::path& sysfs) {
  std::vector<nic_fact> found;
  for (const auto& name : topo::rdma_devices(sysfs / "class")) {
    const fs::path nic = sysfs / "class/infiniband" / name;
    const std::string interface = interface_of(nic);
    found.push_back({.name = name,
                     .driver = driver_of(nic),
                     .link = link_of(nic / "ports/1"),
                     .rate = first_line(nic / "ports/1/rate"),
                     .layer = first_line(nic / "ports/1/link_layer"),
                     .place = topo::place_of_nic(name, sysfs),
                     .interface = interface,
                     .mtu = mtu_of(sysfs, interface)});
  }
  return found;
}

}  // namespace gaudi::info
