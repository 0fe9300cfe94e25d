// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire/net_address.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

using hello = wire::hello;

/// Why a hello cannot be accepted; none when it can.
wire::reject_reason check_hello(const void* bytes, std::size_t length, hello& out) noexcept;

/// Of a rail: `number` is that of the end that asks for it, `connection` and `of_peer` are the
/// numbers of the connection here and at the peer.
hello hello_of_rail(std::uint64_t instance, std::uint32_t connection, std::uint32_t of_peer,
                    std::uint32_t number, const net_address& name) noexcept;

/// An address as packets have it, and back; empty where it is none.
wire::rail_name to_wire(const net_address& name) noexcept;
net_address from_wire(const wire::rail_name& name) noexcept;

/// Puts the listener's address in.
void set_address(hello& h, const net_address& name) noexcept;
/// Empty when the hello names no usable address.
net_address address_of(const hello& h) noexcept;

const char* to_string(wire::reject_reason why) noexcept;

}  // namespace gaudi::proto
