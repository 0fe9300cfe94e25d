// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "copy/copy_part.hpp"
#include "copy/direction.hpp"
#include "device/device.hpp"
#include "hl/abi.hpp"

namespace gaudi::copy {

/// Where an engine's copies go: to the device's own queues (command_queues), or, where the device
/// is Synapse's, to streams of that (synapse_streams). A slot has one copy at a time; members may
/// be called from any thread, for different slots. Not ordered among each other.
class copy_queues {
 public:
  /// As the device wants them. -FI_ENOMEM; device::lost(); errors of command_queues::make or
  /// synapse_streams::make.
  static base::result<std::unique_ptr<copy_queues>> of(
      const std::shared_ptr<device::device>& owner);

  /// Whether there are any for a device: what Synapse copies, or the driver for whoever asks.
  [[nodiscard]] static bool are_on(const device::device& owner) noexcept {
    return owner.synapse() != nullptr || owner.generation().copies;
  }

  virtual ~copy_queues() = default;
  copy_queues(const copy_queues&) = delete;
  copy_queues& operator=(const copy_queues&) = delete;

  /// Most slots; more copies at a time would block.
  [[nodiscard]] virtual unsigned slots() const noexcept = 0;
  /// Parts that a copy may have.
  [[nodiscard]] virtual std::size_t max_parts() const noexcept = 0;
  /// Starts the copy that takes this slot, all of its parts (1 to max_parts(), of which none is
  /// empty) together. Does not wait. -FI_EINVAL: too long; errors of hl::thunk::submit or
  /// hl::synapse::copy, and then nothing has begun.
  virtual base::result<void> start(unsigned slot, std::span<const copy_part> parts,
                                   direction dir) = 0;
  /// What its copy, all of it, has come to after at most `timeout_us` (0: now). Errors of
  /// hl::thunk::wait or hl::synapse::query.
  virtual base::result<hl::cs_status> wait(unsigned slot, std::uint64_t timeout_us) = 0;
  /// The device is lost: nothing here keeps it open any more.
  virtual void abandon() noexcept = 0;

 protected:
  copy_queues() = default;
};

}  // namespace gaudi::copy
