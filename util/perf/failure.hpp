// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <stdexcept>
#include <string_view>

namespace gaudi::perf {

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

/// Throws a failure that names the call when `ret` is a negative libfabric error code.
inline void require(long ret, std::string_view call) {
  if (ret < 0) throw failure(fmt::format("{}: {}", call, fi_strerror(static_cast<int>(-ret))));
}

}  // namespace gaudi::perf
