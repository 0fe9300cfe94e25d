// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/rdma_devices.hpp"

#include <algorithm>
#include <system_error>

namespace gaudi::topo {

std::vector<std::string> rdma_devices(const std::filesystem::path& root) {
  std::vector<std::string> names;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace gaudi::topo
