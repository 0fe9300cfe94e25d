// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/operation/memory.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

/// Bytes of it that travel.
std::size_t rts_size(const wire::rts_fields& rts) noexcept;
/// Puts what travels of it into a packet. As many bytes as that are.
std::size_t put_rts(std::byte* at, const wire::rts_fields& rts) noexcept;

/// Takes what a peer sent, with the flags of its header. False: it contradicts itself, or is cut
/// off.
bool parse_rts(const std::byte* bytes, std::size_t length, wire::rts_fields& out,
               std::uint8_t flags);

/// Names device memory by its allocations. False: it is not all such memory.
bool name_allocations(const local_memory& memory, wire::rts_fields& rts) noexcept;

}  // namespace gaudi::proto
