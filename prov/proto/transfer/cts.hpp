// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/channel/packet_channel.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

/// Tells the source of a transfer where to write, which `cts` names: completes and sends it.
inline void send_cts(packet_channel& channel, const transfer& t, wire::cts_fields& cts,
                     std::uint8_t flags) {
  cts.source_operation = t.peer_operation;
  cts.target_operation = t.id;
  cts.length = t.length;
  channel.send_control(
      *t.connection, wire::kind::cts, flags, cts,
      offsetof(wire::cts_fields, segments) + cts.segment_count * sizeof(wire::segment));
}

/// For a message that tells of data which the core may still be carrying.
inline std::uint8_t behind_data(const transfer& t) noexcept {
  return t.connection->shm && t.reach.via_core ? wire::via_core : 0;
}

}  // namespace gaudi::proto
