// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>

namespace gaudi::copy {

/// Both sides of a copy are device addresses: of HBM, or of host memory in a pinned_region.
enum class direction { host_to_device, device_to_host, device_to_device };

inline constexpr std::array all_directions{direction::host_to_device, direction::device_to_host,
                                           direction::device_to_device};

}  // namespace gaudi::copy
