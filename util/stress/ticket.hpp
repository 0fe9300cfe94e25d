// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace gaudi::stress {

/// What a context points to, and how far that has come.
struct ticket {
  enum class purpose {
    operation,
    receive,
    decoy,  ///< a receive that no message is for
    buffer  ///< takes many messages
  };
  enum class state {
    idle,
    sought,  ///< there is a peek for the message
    posted,
    ended
  };

  // First: the provider's scratch space where it asks for FI_CONTEXT.
  fi_context2 context{};
  std::size_t number = 0;  ///< of the operation; a buffer's own
  purpose kind = purpose::receive;
  bool is_in_spare = false;   ///< received into the spare place
  bool is_abandoned = false;  ///< nothing will come for this receive
  bool is_found = false;      ///< the message has come, as a peek said
  std::uint64_t order = 0;    ///< of its posting, among receives
  state now = state::idle;
  int error = 0;
  std::size_t length = 0;
  std::uint64_t data = 0;
};

}  // namespace gaudi::stress
