// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <stdexcept>
#include <string>

namespace gaudi::rdma_check {

/// What the program ends with; documented in its manual page.
enum class exit_code : int {
  verified = 0,
  contents_differ = 1,
  bad_option = 2,
  no_connection = 3,     ///< no RDMA device, or no way to the peer
  no_dmabuf = 4,         ///< driver, kernel or NIC refuses a dma-buf of device memory
  no_gaudi = 5,          ///< no Gaudi, or it failed
  operation_failed = 6,  ///< an RDMA operation did, or a check of the NIC
};

/// Ends the run; what() is the one line that the user reads on stderr.
class failure : public std::runtime_error {
 public:
  failure(exit_code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  exit_code code() const { return code_; }

 private:
  exit_code code_;
};

/// A failure that the peer has told us: it need not be told again.
class peer_failure : public failure {
 public:
  using failure::failure;
};

}  // namespace gaudi::rdma_check
