// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "copy/dma_engine.hpp"

namespace gaudi::proto {

struct buffer;
struct work;

/// A copy between a buffer and device memory, or within a device, that the engine has under way.
struct device_copy {
  copy::dma_engine* engine;
  copy::ticket ticket;
  buffer* chunk;
};

/// A copy between processes that has been made, and whose end nobody has been told yet.
struct local_copy {
  work* done;
  std::size_t length;
  int error;  // positive FI_E*
};

}  // namespace gaudi::proto
