// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "copy/copy_queues.hpp"
#include "hl/synapse.hpp"

namespace gaudi::copy {

/// Streams of Synapse, one for each direction, and an event for each slot: for a device that is
/// Synapse's, whose engines its firmware drives. Ends before the application releases the device.
class synapse_streams final : public copy_queues {
 public:
  /// Errors of hl::synapse::make_stream.
  static base::result<std::unique_ptr<synapse_streams>> make(std::shared_ptr<device::device> owner);

  /// Nothing is in flight.
  ~synapse_streams() override;

  [[nodiscard]] unsigned slots() const noexcept override { return slot_count; }
  /// An error of a later one would leave those before it under way.
  [[nodiscard]] std::size_t max_parts() const noexcept override { return 1; }
  base::result<void> start(unsigned slot, std::span<const copy_part> parts, direction dir) override;
  /// Synapse knows no time-out: it is asked again and again. A copy whose end it fails to tell of,
  /// while the device is there, counts as busy.
  base::result<hl::cs_status> wait(unsigned slot, std::uint64_t timeout_us) override;
  void abandon() noexcept override {}

 private:
  // A few for each of the chunks of a pipeline in each direction, and for a copier's.
  static constexpr unsigned slot_count = 48;
  struct passkey {};

 public:
  /// For make, the only maker.
  synapse_streams(passkey, std::shared_ptr<device::device> owner) : owner_(std::move(owner)) {}

 private:
  base::result<void> create();
  base::result<void> record(unsigned slot);
  base::result<hl::cs_status> query(unsigned slot);
  [[nodiscard]] const hl::synapse& synapse() const noexcept { return *owner_->synapse(); }

  const std::shared_ptr<device::device> owner_;
  std::array<hl::syn_stream, 3> streams_{};  // by direction
  std::vector<hl::syn_event> events_;        // by slot
  struct copy_in_flight {
    hl::syn_stream stream = nullptr;
    bool is_recorded = false;  // its event stands for it
  };
  std::array<copy_in_flight, slot_count> copies_;
};

}  // namespace gaudi::copy
