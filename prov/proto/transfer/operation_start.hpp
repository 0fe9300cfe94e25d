// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/channel/packet_channel.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// What an operation of several messages begins with: its first message, and its transfer.
struct operation_start {
  buffer* message = nullptr;
  transfer* operation = nullptr;

  [[nodiscard]] explicit operator bool() const noexcept { return operation != nullptr; }
};

/// False: there was no buffer or no transfer left; see why_nothing_left.
operation_start start_operation(packet_channel& channel, transfer_table& table, connection& c,
                                const local_memory& memory, const completion_spec& completion,
                                transfer_role role);

/// The operation did not come about: nobody is told.
void abort_operation(packet_channel& channel, transfer_completion& completion,
                     const operation_start& start);

/// Where there was no buffer or no transfer for an operation: those of others come back
/// (-FI_EAGAIN), and without others there is no memory (-FI_ENOMEM).
int why_nothing_left(const packet_channel& channel, const transfer_table& table) noexcept;

}  // namespace gaudi::proto
