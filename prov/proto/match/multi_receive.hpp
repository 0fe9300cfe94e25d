// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "base/object_pool.hpp"
#include "proto/operation/completion_hook.hpp"

namespace gaudi::proto {

/// One buffer posted with FI_MULTI_RECV: it takes message after message until little room is left,
/// and is the application's again when the last of them is complete (fi_msg(3)). Messages may end
/// in another order than they came. Not thread safe: the caller holds the domain lock.
class multi_receive final : public completion_hook {
 public:
  using pool = base::object_pool<multi_receive>;

  /// `least`: bytes that must be left for the buffer to take another message.
  multi_receive(pool& home, std::size_t least) noexcept : home_(home), least_(least) {}
  virtual ~multi_receive() = default;

  /// A message was given its place; `left` bytes remain. True when the buffer takes no more.
  bool take(std::size_t left) noexcept {
    ++unfinished_;
    return full_ = left == 0 || left < least_;
  }

  /// The buffer takes no more, whatever is left. True when no message is unfinished, too: the
  /// caller then says so to the application and calls give_back().
  bool close() noexcept {
    full_ = true;
    return unfinished_ == 0;
  }

  /// A message in the buffer has ended. Adds FI_MULTI_RECV to its entry, and true, when that makes
  /// the buffer the application's again; the object is gone then.
  bool operation_ended(cq_entry& entry) noexcept override;

  void give_back() noexcept { home_.destroy(this); }

 private:
  pool& home_;
  const std::size_t least_;
  std::size_t unfinished_ = 0;
  bool full_ = false;
};

}  // namespace gaudi::proto
