// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg_traffic.hpp"

#include "device/device_registry.hpp"

namespace gaudi::fi {

void note_device_bytes(std::uint64_t address, std::size_t length) noexcept {
  const auto& all = device::device_registry::instance();
  device::device* const on = all.find_owner(address).owner;
  if (on && all.is_surely_device(address)) on->counted().zero_copy_bytes.add(length);
}

}  // namespace gaudi::fi
