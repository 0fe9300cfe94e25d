// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/direction.hpp"
#include "copy/places.hpp"
#include "reg/nic_loopback.hpp"

namespace gaudi::copy {

/// Copies that the domain's NIC makes here and now, over its connection with itself. Not thread
/// safe: the caller holds the domain lock.
class nic_copies {
 public:
  /// `loop`: the domain's, which outlives this; null: there is none.
  explicit nic_copies(reg::nic_loopback* loop) noexcept : loop_(loop) {}

  [[nodiscard]] bool are_possible() const noexcept { return loop_ != nullptr; }

  /// Between our memory and the application's, whichever way. -FI_EOPNOTSUPP: the NIC does not know
  /// one of them; errors of nic_loopback::copy and nic_loopback::read.
  int copy(const host_place& here, const app_place& there, std::size_t length, direction dir);
  /// From memory of a peer's on this host, under a key that the NIC has for it here. As
  /// nic_loopback::read.
  int read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
           std::uint64_t key);

 private:
  reg::nic_loopback* const loop_;
};

}  // namespace gaudi::copy
