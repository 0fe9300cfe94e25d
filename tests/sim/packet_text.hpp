// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gaudi::sim {

/// A packet of the provider's in a few words, for traces.
std::string packet_text(std::span<const std::byte> packet);

}  // namespace gaudi::sim
