// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/buffer_pool.hpp"
#include "proto/posted_op.hpp"
#include "proto/transfer.hpp"

namespace gaudi::proto {

/// Bytes of what the core was given, for whatever it is.
inline std::size_t length_of(const posted_op& w) noexcept {
  switch (w.what) {
    case posted_op::kind::piece:
      return static_cast<const rma_op&>(w).length;
    case posted_op::kind::probe:
    case posted_op::kind::fence:
      return 0;
    default:
      return static_cast<const buffer&>(w).length;
  }
}

/// What a piece or a chunk is a part of; null: that has ended.
inline const transfer* transfer_of(const posted_op& w) noexcept {
  return w.what == posted_op::kind::piece ? static_cast<const rma_op&>(w).owner
                                          : static_cast<const buffer&>(w).owner;
}

}  // namespace gaudi::proto
