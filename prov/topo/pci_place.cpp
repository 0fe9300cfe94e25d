// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/pci_place.hpp"

#include <cctype>
#include <fstream>
#include <system_error>

namespace gaudi::topo {
namespace {

namespace fs = std::filesystem;

/// "pci0000:15", as the kernel names host bridges (also those inside a PCI function, of VMD).
bool is_host_bridge(std::string_view name) {
  return name.starts_with("pci") && name.find(':') != std::string_view::npos;
}

/// "0000:19:00.0"; virtual PCI domains have more than four digits.
bool is_function(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4) return false;
  for (const char c : name.substr(0, colon))
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  const auto rest = name.substr(colon + 1);
  return rest.size() == 7 && rest[2] == ':' && rest[5] == '.';
}

int numa_node_of(const fs::path& function) {
  std::ifstream in(function / "numa_node");
  int node = -1;
  in >> node;
  return in ? node : -1;
}

/// Of what the link leads to, or of the function it belongs to (a virtio NIC is the child of one).
pci_place place_behind(const fs::path& link) {
  std::error_code failure;
  const fs::path target = fs::canonical(link, failure);
  pci_place place;
  if (failure) return place;
  fs::path walked;
  fs::path function;
  for (const auto& part : target) {
    walked /= part;
    const std::string name = part.string();
    if (!is_host_bridge(name) && !is_function(name)) continue;
    place.path.push_back(name);
    if (is_function(name)) function = walked;
  }
  if (function.empty()) return {};
  place.numa_node = numa_node_of(function);
  return place;
}

}  // namespace

pci_place place_of_function(const std::string& bus_id, const fs::path& sysfs) {
  return place_behind(sysfs / "bus/pci/devices" / bus_id);
}

pci_place place_of_nic(const std::string& name, const fs::path& sysfs) {
  if (auto place = place_behind(sysfs / "class/infiniband" / name / "device"); place.known())
    return place;
  return place_behind(sysfs / "class/net" / name / "device");
}

}  // namespace gaudi::topo
