// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/kernel_class.hpp"

#include <algorithm>
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

}  // namespace gaudi::topo
