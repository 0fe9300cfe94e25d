// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <vector>

#include "report.hpp"

namespace gaudi::info {

/// The file that a process opens to compute on the device whose control node is `control`, in the
/// same folder: /dev/accel/accel0 for /dev/accel/accel_controlD0, and so for older drivers and for
/// the stand-in's files. Empty: no control node's name.
std::filesystem::path compute_node_of(const std::filesystem::path& control);

/// The processes that have `node` open, by their numbers. Only those whose descriptors this user
/// may look at (the user's own, all for root) and whose numbers this process's name space has; none
/// where `node` is missing. `proc` is where procfs is mounted; another folder in tests.
std::vector<holder> holders_of(const std::filesystem::path& node,
                               const std::filesystem::path& proc);

}  // namespace gaudi::info
