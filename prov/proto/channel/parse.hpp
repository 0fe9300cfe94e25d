// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstring>

#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {

/// The fixed part of a packet. False: the packet is too short for it.
template <class Fields>
bool parse(const buffer& b, std::size_t length, Fields& out) noexcept {
  if (length < sizeof(Fields)) return false;
  std::memcpy(&out, b.bytes, sizeof(Fields));
  return true;
}

}  // namespace gaudi::proto
