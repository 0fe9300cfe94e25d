// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <vector>

#include "machine.hpp"

namespace gaudi::info {

/// The nodes below `dev` of all Gaudis and RDMA devices that `sysfs` shows. Those whose opening has
/// no effect are tried; a Gaudi's compute node is not, as it is one process's at a time.
std::vector<node_fact> collect_nodes(const std::filesystem::path& sysfs,
                                     const std::filesystem::path& dev);

/// Whether the node's mode lets this process read and write it.
bool is_allowed(const node_fact& node, const credentials& self);

}  // namespace gaudi::info
