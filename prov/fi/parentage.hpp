// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/fork_generation.hpp"

namespace gaudi::fi {

/// Part of an object that must not be used, nor closed, in a process that came by fork from the one
/// that opened it: both would use the same sockets and NIC queues. Any thread.
class parentage {
 public:
  /// Says so once in such a process.
  [[nodiscard]] bool belongs_to_parent() const noexcept {
    if (generation_ == base::current_fork_generation()) [[likely]]
      return false;
    warn();
    return true;
  }

 private:
  static void warn() noexcept;

  const unsigned generation_ = base::fork_generation();
};

}  // namespace gaudi::fi
