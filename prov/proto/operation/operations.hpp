// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>

#include "proto/operation/atomic_math.hpp"
#include "proto/operation/completion_spec.hpp"
#include "proto/operation/memory.hpp"

/// What an application asks of an endpoint, in the words that the endpoint takes.
namespace gaudi::proto {

/// Largest message that fi_inject and its relatives take, in bytes.
inline constexpr std::size_t max_inject = 1024;

/// A message to send, checked and classified.
struct send_params {
  fi_addr_t to = FI_ADDR_NOTAVAIL;
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint8_t wire_flags = 0;  // wire::tagged, wire::cq_data
  bool inject = false;          // the buffer is the caller's again on return
  bool transmit = false;  // ends when the core says it is with the peer (FI_TRANSMIT_COMPLETE)
  bool delivery = false;  // ends when it is in the receiver's buffer (FI_DELIVERY_COMPLETE)
  completion_spec completion;
};

/// An RMA operation.
struct rma_access {
  fi_addr_t target = FI_ADDR_NOTAVAIL;
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::uint64_t data = 0;
  bool has_data = false;
  bool inject = false;
  bool delivery = false;
  completion_spec completion;
};

/// An atomic operation, known to be offered.
struct atomic_access {
  atomic_math::call group = atomic_math::call::plain;
  fi_addr_t target = FI_ADDR_NOTAVAIL;
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  fi_datatype type = FI_UINT8;
  fi_op op = FI_SUM;
  std::size_t count = 0;  // elements, within atomics::limit
  bool inject = false;    // the operands are the caller's again on return
  local_memory operands;  // none for FI_ATOMIC_READ
  local_memory compares;  // of the comparing group
  local_memory results;   // of the fetching and the comparing group
  completion_spec completion;
};

}  // namespace gaudi::proto
