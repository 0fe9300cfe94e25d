// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>

namespace gaudi::core {

/// mlx5 may put a short payload into the completion, for the CPU to copy to its place: a fault
/// where that place is device memory. MLX5_SCATTER_TO_CQE=0 forbids it, for devices that are opened
/// after it is set.

/// Why it may not be in force although we set it now, as a sentence; empty: it will be. `value` is
/// the variable's text, null: not set. `descriptors` names the process's open files; another folder
/// in tests.
std::string scatter_objection(const char* value, bool has_mlx5,
                              const std::filesystem::path& descriptors = "/proc/self/fd");

/// Sets the variable unless the user did, and warns where that is too late or of no use. Once in a
/// process, before verbs is first asked.
void forbid_scatter_to_cqe();

}  // namespace gaudi::core
