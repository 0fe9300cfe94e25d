// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "settings.hpp"

namespace gaudi::stress {

struct options {
  settings common;
  unsigned processes = 4;    ///< workers on this host
  double seconds = 10;       ///< a run's
  std::uint64_t rounds = 0;  ///< that it ends after; 0: by time
  bool kill = false;
  bool reset = false;
};

/// Parses the command line. A return value means that the program ends with it (help, an error that
/// has been reported); `out` is complete otherwise.
std::optional<int> parse(int argc, char** argv, options& out);

}  // namespace gaudi::stress
