// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "copy/command_memory.hpp"
#include "copy/copy_queues.hpp"

namespace gaudi::copy {

/// The device's DMA queues, by command submission (prov/docs/device.md, 5.2 and 5.3).
class command_queues final : public copy_queues {
 public:
  /// -FI_EOPNOTSUPP: a generation that takes no copies (generation_traits::copies), said once for
  /// each device; errors of command_memory::make.
  static base::result<std::unique_ptr<command_queues>> make(
      const std::shared_ptr<device::device>& owner);

  [[nodiscard]] unsigned slots() const noexcept override;
  /// As many as a command buffer describes, where none is longer than packet_limit.
  [[nodiscard]] std::size_t max_parts() const noexcept override { return max_packets; }
  /// -FI_EINVAL: more than one command buffer can describe (a part of over 160 GiB).
  base::result<void> start(unsigned slot, std::span<const copy_part> parts, direction dir) override;
  base::result<hl::cs_status> wait(unsigned slot, std::uint64_t timeout_us) override;
  void abandon() noexcept override { commands_.abandon(); }

 private:
  static constexpr unsigned max_slots = 64;
  static constexpr std::uint32_t slot_bytes = 2048;
  static constexpr std::uint64_t packet_limit = std::uint64_t{1} << 31;
  static constexpr std::uint64_t max_packets = slot_bytes / sizeof(hl::lin_dma);
  struct passkey {};

 public:
  /// For make, the only maker.
  command_queues(passkey, std::shared_ptr<device::device> owner, command_memory commands);

 private:
  [[nodiscard]] std::uint32_t queue_for(direction dir) noexcept;
  std::uint32_t write_packets(unsigned slot, std::span<const copy_part> parts) noexcept;

  const std::shared_ptr<device::device> owner_;
  const command_memory commands_;
  std::atomic<unsigned> next_queue_{0};
  std::array<std::uint64_t, max_slots> submissions_{};  // their numbers
};

}  // namespace gaudi::copy
