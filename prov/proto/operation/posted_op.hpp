// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <boost/intrusive/list.hpp>
#include <cstdint>

namespace gaudi::proto {

class connection;

/// The first member of everything given to the core: with FI_CONTEXT2 the core may write here
/// between post and completion, and hands back its address as the operation's context.
struct core_context {
  fi_context2
      storage;  // NOLINT(cppcoreguidelines-pro-type-member-init): what is in it is the core's
};

/// Something given to the core provider that comes back as one completion. It stays allocated until
/// then, whatever becomes of its connection.
struct posted_op : core_context, boost::intrusive::list_base_hook<> {
  enum class kind : unsigned char {
    receive,  // a receive buffer in the shared pool
    message,  // a message from a transmit buffer
    chunk,    // a core RMA read or write of a chunk of a transfer
    piece,    // one of a transfer on the application's own memory
    direct,   // one that is all of an operation of the application's
    probe,    // the link_watch's
    fence,    // the write_fence's
  };

  explicit posted_op(kind k) noexcept : what(k) {}
  posted_op(const posted_op&) = delete;
  posted_op& operator=(const posted_op&) = delete;

  /// In place of a rail: who takes completions asks one thing of all that is not usual.
  static constexpr std::uint8_t of_probe = UINT8_MAX;
  /// The same of a chunk that is written, and waits for the write_fence.
  static constexpr std::uint8_t behind_fence = UINT8_MAX - 1;

  const kind what;
  std::uint8_t tries = 0;    // of RMA: connections that were lost with this at their head (session)
  std::uint8_t rail = 0;     // of RMA that is shared out: which rail has it, from 1 on; of_probe
  std::uint32_t number = 0;  // of a message; of RMA: of the last packet before it (session)
  // The connection it was posted on, which lists it; null when that connection failed meanwhile.
  proto::connection* connection = nullptr;

  [[nodiscard]] void* context() noexcept { return static_cast<core_context*>(this); }
  static posted_op& from_context(void* context) noexcept {
    return *static_cast<posted_op*>(static_cast<core_context*>(context));
  }
};

using posted_op_list =
    boost::intrusive::list<posted_op, boost::intrusive::constant_time_size<false>>;

}  // namespace gaudi::proto
