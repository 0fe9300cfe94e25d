// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <stdexcept>
#include <string>

namespace gaudi::common {

/// Ends the run; what() is the one line that the user reads on stderr.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the other side told of its own failure, so it is not told back.
class peer_failure : public failure {
 public:
  explicit peer_failure(const std::string& reason)
      : failure("the other side failed: " + reason), reason_(reason) {}

  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

}  // namespace gaudi::common
