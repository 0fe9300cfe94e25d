// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <optional>

#include "ipc/byte_ring.hpp"
#include "ipc/segment.hpp"
#include "sim/core/network.hpp"

namespace gaudi::sim {

/// What a process that is not honest does to memory that it shares with a peer: it changes packets
/// that its endpoint has put into the ring, and now and then anything else that is there.
class memory_forger {
 public:
  /// A segment as the process has it mapped, of `size` bytes: until unmapped. One that it makes
  /// itself has nothing in it yet.
  memory_forger(void* at, std::size_t size) noexcept;

  /// At the end of its turn, so that the peer sees only what comes of it.
  void forge(const host& forger);

 private:
  [[nodiscard]] ipc::segment_head& head() const noexcept {
    return *reinterpret_cast<ipc::segment_head*>(at_);
  }
  void follow_ring();
  void forge_packets(const host& forger);
  void change_anything(network& net) const;

  std::byte* const at_;
  const std::size_t size_;
  const ipc::end end_;
  // How far this has come in the ring that the process writes: the reader's own words stay as they
  // are.
  ipc::ring_control seen_;
  std::optional<ipc::ring_reader> packets_;
};

}  // namespace gaudi::sim
