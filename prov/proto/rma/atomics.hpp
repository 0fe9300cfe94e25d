// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/atomic_math.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/operations.hpp"
#include "proto/rma/rma_target.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {

/// Atomic operations: always by message, carried out by the target under its domain lock, which
/// makes them atomic towards each other. Values of device memory come and go by its copy engine.
///
/// Not thread safe: the caller holds the domain lock.
class atomics {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    reg::key_table& keys;
    device_copies& copies;
    packet_channel& channel;
    transfer_table& table;
    transfer_completion& completion;
  };

  atomics(parts collaborators, const peer_access_counters& counters,
          std::size_t eager_size) noexcept
      : parts_(collaborators), counters_(counters), eager_size_(eager_size) {}

  /// Bytes of values that one operation may have, with this FI_GAUDI_EAGER_SIZE.
  static std::size_t limit(std::size_t eager_size) noexcept;

  /// On a connection that has a credit for it. 0, -FI_EAGAIN: no room; or an error.
  int request(connection& c, const atomic_access& access);
  /// A peer's, at its target.
  void handle(connection& c, buffer& b, std::size_t length);

 private:
  bool carry_out(connection& c, const wire::atomic_fields& request, const reg::region& target,
                 const std::byte* payload);
  void count_atomic(const reg::region& target, atomic_math::call group, fi_op op, int ret) noexcept;

  const parts parts_;
  const peer_access_counters& counters_;
  const std::size_t eager_size_;
};

}  // namespace gaudi::proto
