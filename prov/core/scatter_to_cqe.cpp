// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/scatter_to_cqe.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>

#include "base/log.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "MLX5_SCATTER_TO_CQE";

bool has_open_rdma_device(const fs::path& descriptors) {
  std::error_code failure;
  fs::directory_iterator it(descriptors, failure);
  for (const fs::directory_iterator end; !failure && it != end; it.increment(failure)) {
    std::error_code unreadable;
    const std::string target = fs::read_symlink(it->path(), unreadable).string();
    if (!unreadable && target.starts_with("/dev/infiniband/uverbs")) return true;
  }
  return false;
}

bool has_mlx5_device() {
  const auto devices = topo::rdma_devices();
  return std::any_of(devices.begin(), devices.end(),
                     [](const std::string& name) { return name.starts_with("mlx5"); });
}

}  // namespace

std::string scatter_objection(const char* value, bool has_mlx5, const fs::path& descriptors) {
  if (!has_mlx5) return {};
  if (value)
    return std::strcmp(value, "0") == 0 ? "" : std::string(variable) + "=" + value + " is set";
  if (has_open_rdma_device(descriptors))
    return "an RDMA device was opened before " + std::string(variable) + "=0 could be set";
  return {};
}

void forbid_scatter_to_cqe() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto why = scatter_objection(std::getenv(variable), has_mlx5_device());
    if (!why.empty())
      GAUDI_WARN(CORE,
                 "%s: mlx5 may copy short messages to Gaudi memory with the CPU, which is a fault. "
                 "Start the application with %s=0.\n",
                 why.c_str(), variable);
    ::setenv(variable, "0", 0);
  });
}

}  // namespace gaudi::core
