// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/msg_traffic.hpp"

namespace gaudi::fi {

void note_device_bytes(const device::device_registry& devices, std::uint64_t address,
                       std::size_t length) noexcept {
  device::device* const on = devices.find_owner(address).owner;
  if (on && devices.is_surely_device(address)) on->counted().zero_copy_bytes.add(length);
}

}  // namespace gaudi::fi
