// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/scoped_fd.hpp"
#include "device/sysfs.hpp"
#include "hl/thunk.hpp"

namespace gaudi::device {

/// A Gaudi that this process has open for computing.
struct open_file {
  base::scoped_fd fd;  ///< a duplicate of the process's descriptor
  std::string bus_id;
};

/// Whether `fd` is of a control node, which tells of a device and does nothing with it. `names` as
/// below.
bool is_control_node(const std::optional<sysfs>& names, int fd);

/// All of them, by the numbers of the process's descriptors, as `folder` lists these; a device as
/// often as it is open. `names` tells a real one by its number; nothing: the files are the
/// stand-in's, which the library tells. Control nodes do not count. Descriptors of
/// other files are looked at, but not duplicated. Throws std::bad_alloc.
std::vector<open_file> gaudis_open_here(const hl::thunk& thunk, const std::optional<sysfs>& names,
                                        const std::filesystem::path& folder = "/proc/self/fd");

}  // namespace gaudi::device
