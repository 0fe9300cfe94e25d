// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/direction.hpp"
#include "copy/places.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/nic_loopback.hpp"

namespace gaudi::copy {

/// Copies that the domain's NIC makes here and now, over its connection with itself. Not thread
/// safe: the caller holds the domain lock.
class nic_copies {
 public:
  /// `loop` and `dmabufs`: the domain's, which outlive this; null: there is none.
  explicit nic_copies(reg::nic_loopback* loop, reg::dmabuf_registrar* dmabufs = nullptr) noexcept
      : loop_(loop), dmabufs_(dmabufs) {}

  [[nodiscard]] bool are_possible() const noexcept { return loop_ != nullptr; }

  /// Between our memory and the application's, whichever way. What the NIC does not know yet it is
  /// told for the time of the copy. -FI_EOPNOTSUPP: it cannot be let at one of them; errors of
  /// device::pin_in, of registering, and of nic_loopback::copy and nic_loopback::read. Throws
  /// std::bad_alloc.
  int copy(const host_place& here, const app_place& there, std::size_t length, direction dir);
  /// The same between two places of the application's.
  int copy(const app_place& to, const app_place& from, std::size_t length);
  /// From memory of a peer's on this host, under a key that the NIC has for it here. As
  /// nic_loopback::read.
  int read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
           std::uint64_t key);

 private:
  using end = reg::nic_loopback::end;
  struct reach;
  int reach_app(reach& made, const app_place& place, std::size_t length, end which);
  int reach_device(reach& made, const app_place& place, std::size_t length);
  int reach_host(reach& made, std::byte* bytes, std::size_t length, end which);

  reg::nic_loopback* const loop_;
  reg::dmabuf_registrar* const dmabufs_;
};

}  // namespace gaudi::copy
