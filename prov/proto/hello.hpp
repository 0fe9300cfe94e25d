// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "proto/net_address.hpp"
#include "proto/wire.hpp"

namespace gaudi::proto {

using hello = wire::hello;

/// Why a hello cannot be accepted; none when it can.
wire::reject_reason check_hello(const void* bytes, std::size_t length, hello& out) noexcept;

/// Puts the listener's address in.
void set_address(hello& h, const net_address& name) noexcept;
/// Empty when the hello names no usable address.
net_address address_of(const hello& h) noexcept;

const char* to_string(wire::reject_reason why) noexcept;

}  // namespace gaudi::proto
