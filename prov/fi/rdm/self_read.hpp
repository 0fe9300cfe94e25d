// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>

#include "fi/rdm/domain.hpp"
#include "proto/operation/memory.hpp"

namespace gaudi::fi {

/// Carries out a read of an endpoint from itself under the key of a region of its domain that gives
/// peers no right to read. A process may read its own memory, and HCL flushes so: it registers with
/// FI_SEND | FI_RECV and reads four bytes by that key. No packet leaves, so no peer gains a right.
/// Returns when the bytes are there: the NIC reads what it reaches, the device's engine copies the
/// rest. 0 or -FI_E*; nullopt: there is no such region, or its kind of memory cannot be read into
/// `to` here.
std::optional<int> read_own_region(domain& d, const proto::local_memory& to, std::uint64_t address,
                                   std::uint64_t key) GAUDI_REQUIRES(d.lock());

}  // namespace gaudi::fi
