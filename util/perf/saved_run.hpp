// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "measure.hpp"

namespace gaudi::perf {

/// What a plot shows of a run.
struct plotted_run {
  std::string name;  ///< in the legend
  std::vector<measurement> results;
};

/// Reads what --json or --csv printed. Throws failure, which names the file, for anything else.
plotted_run read_run(const std::filesystem::path& file);

/// "tagged, device to host": what a run is called beside its file.
std::string run_kind(const std::string& operation, const std::string& client_memory,
                     const std::string& server_memory);

}  // namespace gaudi::perf
