// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "settings.hpp"

namespace gaudi::stress {

struct options {
  settings common;
  unsigned processes = 4;  ///< workers on this host
  bool is_server = false;  ///< waits for a client, which decides all but that
  std::string server;      ///< of which this side is the client; empty: none
  std::uint16_t port = 18515;
  double seconds = 10;       ///< a run's
  std::uint64_t rounds = 0;  ///< that it ends after; 0: by time
  bool kill = false;
  bool reset = false;
};

/// What the client decides for both sides. Reading it fails for what no command line gives.
void to_json(nlohmann::json& j, const options& o);
void from_json(const nlohmann::json& j, options& o);

/// Parses the command line. A return value means that the program ends with it (help, an error that
/// has been reported); `out` is complete otherwise.
std::optional<int> parse(int argc, char** argv, options& out);

}  // namespace gaudi::stress
