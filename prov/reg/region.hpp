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
  // Device memory that the NIC reaches: what `key` names, where peers may use it, and what our own
  // transfers use, in which the peer may have to read what is sent or write what is received.
  // Declared last: they end before the memory may go.
  std::shared_ptr<const core::inner_mr> by_key;
  std::shared_ptr<const core::inner_mr> transfers;
  std::uint64_t transfer_access = 0;  // what `transfers` lets a peer do

  /// The core's registration for local use that lets a peer do `remote` as well; null: none.
  [[nodiscard]] const core::inner_mr* core_for(std::uint64_t remote) const noexcept {
    if (on_device()) return (transfer_access & remote) == remote ? transfers.get() : nullptr;
    return core && (access & remote) == remote ? &core : nullptr;
  }
  /// What the core calls it towards peers; null: only this provider knows it.
  [[nodiscard]] const core::inner_mr* core_for_peers() const noexcept {
    if (on_device()) return by_key.get();
    return core ? &core : nullptr;
  }
  /// Ends what the core knows of it; under the domain lock, as the core wants.
  void leave_core() noexcept {
    core = {};
    by_key.reset();
    transfers.reset();
  }

  [[nodiscard]] bool on_device() const noexcept { return owner != nullptr; }
  [[nodiscard]] bool holds(std::uint64_t first, std::size_t count) const noexcept {
    return first >= address && count <= length && first - address <= length - count;
  }
};

}  // namespace gaudi::reg
