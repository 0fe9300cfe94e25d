// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

#include "proto/wire/wire.hpp"

namespace gaudi::proto {

/// An RMA operation on one piece of memory, for the core.
struct rma_request {
  bool read = false;
  std::uint64_t flags = FI_COMPLETION;  // of fi_writemsg, for a write
  void* bytes = nullptr;
  void* descriptor = nullptr;
  std::size_t length = 0;
  wire::segment remote{};
};

}  // namespace gaudi::proto
