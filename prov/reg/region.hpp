// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counter.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/registration_cache.hpp"

namespace gaudi::reg {

/// One registered range, host or device memory. The application's fid_mr and the descriptor that it
/// passes with each buffer are this object.
struct region {
  static constexpr std::uint64_t mark = 0x6761'7564'6972'6567;  // "gaudireg"

  const std::uint64_t marked = mark;  // tells it from what an application took for a descriptor
  std::uint64_t address = 0;          // first byte: a CPU or a device address
  std::size_t length = 0;
  std::uint64_t access = 0;  // FI_SEND ... FI_REMOTE_WRITE
  std::uint64_t key = 0;     // what peers name it by
  // Peers give addresses; else offsets from the start (FI_MR_SCALABLE).
  bool virtual_address = false;

  // For key_table: the next one in its chain, and what points here while it is in one.
  region* next_of_key = nullptr;
  region** link_of_key = nullptr;

  // Of what peers do here, or null. They outlive the region.
  base::counter* peers_read = nullptr;
  base::counter* peers_wrote = nullptr;

  core::inner_mr core;  // host memory: registered with the core as well

  // Device memory, which cannot be freed for as long as the region exists. The device stays open
  // for as long as the registrar that obtained the registrations.
  device::device* owner = nullptr;
  device::unowned_pin pin;
  // Memory of a dma-buf that the application brought: only the NIC reaches it, and no device of
  // ours has it.
  bool imported = false;
  // Device memory that the NIC reaches: what our own transfers use, in which the peer may have to
  // read what is sent or write what is received; and what `key` names, where peers may use it and
  // that is not the same. Declared last: they end before the memory may go.
  registration by_key;
  registration transfers;
  std::uint64_t transfer_access = 0;  // what `transfers` lets a peer do

  /// What a NIC that is not the domain's own knows of it: the one or the other.
  struct at_nic {
    std::size_t nic;       // other_nic::number
    std::uint64_t access;  // what it was made for
    core::inner_mr host;
    registration device;

    [[nodiscard]] const core::inner_mr* mr() const noexcept { return host ? &host : device.get(); }
  };
  mutable std::unique_ptr<std::vector<at_nic>> at_other_nics;  // other_nic's to write

  /// The core's registration for local use that lets a peer do `remote` as well; null: none.
  [[nodiscard]] const core::inner_mr* core_for(std::uint64_t remote) const noexcept {
    if (on_device()) {
      const bool allowed = (transfer_access & remote) == remote && (!owner || owner->lost() == 0);
      return allowed ? transfers.get() : nullptr;
    }
    return core && (access & remote) == remote ? &core : nullptr;
  }
  /// The one with which our own NIC can read it over its connection with itself; null: none.
  [[nodiscard]] const core::inner_mr* core_for_own_reads() const noexcept {
    return core_for(FI_REMOTE_READ);
  }
  /// What the core calls it towards peers; null: only this provider knows it.
  [[nodiscard]] const core::inner_mr* core_for_peers() const noexcept {
    if (!on_device()) return core ? &core : nullptr;
    return key_names_transfers() ? transfers.get() : by_key.get();
  }
  /// Ends what the core knows of it; under the domain lock, as the core wants.
  void leave_core() noexcept {
    if (at_other_nics) [[unlikely]]
      at_other_nics.reset();
    core = {};
    by_key.reset();
    transfers.reset();
  }

  /// What peers may do in RMA.
  [[nodiscard]] std::uint64_t remote_access() const noexcept {
    return access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
  }
  /// Peers may do in RMA just what they may in our transfers: one registration serves both.
  [[nodiscard]] bool key_names_transfers() const noexcept {
    return remote_access() != 0 && remote_access() == transfer_access;
  }
  /// A CPU must not touch it.
  [[nodiscard]] bool on_device() const noexcept { return owner != nullptr || imported; }
  [[nodiscard]] bool holds(std::uint64_t first, std::size_t count) const noexcept {
    return first >= address && count <= length && first - address <= length - count;
  }
};

}  // namespace gaudi::reg
