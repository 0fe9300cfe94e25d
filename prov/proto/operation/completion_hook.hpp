// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/operation/completion_queue.hpp"

namespace gaudi::proto {

/// What has to happen when an operation ends, before the application is told of it.
class completion_hook {
 public:
  /// Once for each end. It may add to the entry. True: a success is to be told, even where nobody
  /// asked for that. The object may be gone on return.
  virtual bool operation_ended(cq_entry& entry) noexcept = 0;

 protected:
  ~completion_hook() = default;
};

}  // namespace gaudi::proto
