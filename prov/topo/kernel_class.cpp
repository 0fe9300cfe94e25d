// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/kernel_class.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace gaudi::topo {

std::vector<std::string> class_devices(std::string_view name, const std::filesystem::path& root) {
  std::vector<std::string> names;
  std::error_code ec;
  std::filesystem::directory_iterator it(root / name, ec);
  for (const std::filesystem::directory_iterator end; !ec && it != end; it.increment(ec)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_gaudi_port(const std::string& name, const std::filesystem::path& root) {
  if (name.starts_with("hbl_") || name.starts_with("hlib_")) return true;
  std::ifstream in(root / "infiniband" / name / "device" / "vendor");
  std::string vendor;
  return in >> vendor && vendor == "0x1da3";  // Habana Labs
}

std::vector<std::string> rdma_devices(const std::filesystem::path& root) {
  auto names = class_devices("infiniband", root);
  std::erase_if(names, [&](const std::string& name) { return is_gaudi_port(name, root); });
  return names;
}

}  // namespace gaudi::topo
