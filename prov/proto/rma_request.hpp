// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/wire.hpp"

namespace gaudi::proto {

/// An RMA operation on one piece of memory, for the core.
struct rma_request {
  bool read = false;
  bool delivery = false;  // of a write: FI_DELIVERY_COMPLETE
  void* bytes = nullptr;
  void* descriptor = nullptr;
  std::size_t length = 0;
  wire::segment remote{};
};

}  // namespace gaudi::proto
