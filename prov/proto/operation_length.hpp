// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/buffer_pool.hpp"
#include "proto/posted_op.hpp"
#include "proto/transfer.hpp"

namespace gaudi::proto {

/// Bytes of what the core was given.
inline std::size_t length_of(const posted_op& w) noexcept {
  switch (w.what) {
    case posted_op::kind::piece:
      return static_cast<const rma_op&>(w).length;
    case posted_op::kind::probe:
      return 0;
    default:
      return static_cast<const buffer&>(w).length;
  }
}

}  // namespace gaudi::proto
