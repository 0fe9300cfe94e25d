// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "plan.hpp"

namespace gaudi::rdma_check {

struct options {
  plan work;
  bool device = false;  ///< this side's memory is a Gaudi's
  std::string gaudi;    ///< which, as FI_GAUDI_DEVICE says it; empty: that variable's value
  std::string server;   ///< empty: this side is the server
  std::string bind;     ///< address of this machine to use; empty: the route's, or all
  std::uint16_t port = 18515;
  std::chrono::seconds timeout{30};
  bool json = false;

  bool client() const { return !server.empty(); }
};

/// Parses the command line. A return value means that the program ends with it (help, an error that
/// has been reported); `out` is complete otherwise.
std::optional<int> parse(int argc, char** argv, options& out);

}  // namespace gaudi::rdma_check
