// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "proto/connection/endpoint_settings.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

/// Device memory of which an operation gave no descriptor: registers it for this operation, for all
/// local ones and for what a peer may do of `remote` (FI_REMOTE_READ, FI_REMOTE_WRITE, or 0), as if
/// the application had. What the NIC knows of it the registration cache keeps for the next
/// operation; until the end of this one the memory cannot be freed. What the NIC does not take
/// stays as it is, and is staged.
void register_all_of(transfer& t, const endpoint_settings& with, std::uint64_t remote) noexcept;

/// The same, decided at once where all of it is the host's.
inline void register_implicitly(transfer& t, const endpoint_settings& with,
                                std::uint64_t remote) noexcept {
  if (t.memory.on_device()) [[unlikely]]
    register_all_of(t, with, remote);
}

}  // namespace gaudi::proto
