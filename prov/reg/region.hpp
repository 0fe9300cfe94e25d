// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/counter.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"

namespace gaudi::reg {

/// One registered range, host or device memory. The application's fid_mr and the descriptor that it
/// passes with each buffer are this object.
struct region {
  std::uint64_t address = 0;  // first byte: a CPU or a device address
  std::size_t length = 0;
  std::uint64_t access = 0;  // FI_SEND ... FI_REMOTE_WRITE
  std::uint64_t key = 0;     // what peers name it by
  bool virtual_address =
      false;  // peers give addresses; else offsets from the start (FI_MR_SCALABLE)

  // Of what peers do here, or null. They outlive the region.
  base::counter* peers_read = nullptr;
  base::counter* peers_wrote = nullptr;

  core::inner_mr core;  // host memory: registered with the core as well

  // Device memory: kept open, and kept from being freed, for as long as the region exists.
  std::shared_ptr<device::device> owner;
  std::optional<device::allocation_pin> pin;

  [[nodiscard]] bool on_device() const noexcept { return owner != nullptr; }
  [[nodiscard]] bool holds(std::uint64_t first, std::size_t count) const noexcept {
    return first >= address && count <= length && first - address <= length - count;
  }
};

}  // namespace gaudi::reg
