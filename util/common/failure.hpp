// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <stdexcept>

namespace gaudi::common {

/// Ends the run; what() is the one line that the user reads on stderr.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the other side told of its own failure, so it is not told back.
class peer_failure : public failure {
 public:
  using failure::failure;
};

}  // namespace gaudi::common
