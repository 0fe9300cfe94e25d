// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/direct_op.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

/// Bytes of what the core was given, for whatever it is.
inline std::size_t length_of(const posted_op& w) noexcept {
  switch (w.what) {
    case posted_op::kind::piece:
      return static_cast<const rma_op&>(w).length;
    case posted_op::kind::direct:
      return static_cast<const direct_op&>(w).operation.length;
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

/// Whether it fills a slot of the peer's by the connection itself, and the packet behind it says
/// so, and comes there, whatever becomes of the transfer here.
inline bool is_told_of(const posted_op& w, const transfer& t) noexcept {
  return w.what == posted_op::kind::chunk && t.strategy == transfer_strategy::push &&
         t.slots.in_use && !t.connection->session.may_move;
}

/// Whether nobody waits for it any more.
inline bool is_over(const posted_op& w) noexcept {
  if (w.what == posted_op::kind::direct) return !static_cast<const direct_op&>(w).on;
  const transfer* const t = transfer_of(w);
  return !t || (t->ending.begun && !is_told_of(w, *t));
}

/// Whether it writes to the peer's memory, or to nobody's as it is over.
inline bool is_write(const posted_op& w) noexcept {
  if (w.what == posted_op::kind::direct) return !static_cast<const direct_op&>(w).operation.read;
  const transfer* const t = transfer_of(w);
  return t && t->strategy == transfer_strategy::push;
}

}  // namespace gaudi::proto
