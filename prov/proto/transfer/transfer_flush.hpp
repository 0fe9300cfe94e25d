// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "device/device_registry.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/session/rail_settings.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::proto {

/// When data that a NIC wrote to device memory may be reported: after a flush at the end that has
/// the memory. Who received it flushes by itself, if it can with the message that it owes the peer
/// anyway; who wrote to a peer with FI_DELIVERY_COMPLETE asks for it.
///
/// Not thread safe: the caller holds the domain lock.
class transfer_flush {
 public:
  /// `flush`: of the domain, which outlives this; null: what the NIC wrote is not flushed.
  /// `rails`: has the other NICs. `devices`: those that a peer may have written to.
  transfer_flush(reg::write_flush* flush, const rail_settings& rails,
                 const device::device_registry& devices, core_transport& core,
                 packet_channel& channel) noexcept
      : flush_(flush), rails_(rails), devices_(devices), core_(core), channel_(channel) {}

  /// Flushes what the endpoint's own NIC has written to the device, as a completion of the core
  /// says. 0 or a positive FI_E*.
  int flush_own(device::device& on);
  /// Flushes the transfer's memory here and now. 0 or a positive FI_E*.
  int flush_local(const transfer& t);
  /// Sends the transfer's `fin` so that it flushes. Whether the transfer's end has to wait for
  /// fin_left().
  bool flush_by_fin(transfer& t);
  /// The `fin` of a transfer, which flushes, has left or failed.
  void fin_left(transfer& t, int error) noexcept;

  /// Whether the peer has to be asked before the transfer, all written, is complete.
  [[nodiscard]] bool wants_remote_flush(const transfer& t) const noexcept;
  /// Its answer is a `fin`.
  void ask_to_flush(const transfer& t);

  /// From now on a peer may write to device memory by this NIC, and tells no more than where.
  void note_writer(const reg::other_nic& nic) noexcept {
    other_writers_ = static_cast<std::uint16_t>(other_writers_ | 1U << nic.number());
  }
  /// Flushes what the peer wrote to at this address, as a packet of it says. 0 or a positive FI_E*.
  int flush_at(const connection& by, std::uint64_t address);
  void answer(connection& c, const wire::event_fields& request) {
    channel_.send_fin(c, request.data, flush_at(c, request.address));
  }
  /// Forgets what it has of devices that are lost.
  void forget_lost() {
    last_ = {};
    if (flush_) flush_->forget_lost();
    for (const rail_interface& one : rails_.others)
      if (one.nic) one.nic->flush().forget_lost();
  }

 private:
  /// A flush, which is of use for all that was known to be written then. What the core tells of in
  /// one look was all written before the first of it is handled, so that one flush is enough.
  struct moment {
    const device::device* on = nullptr;
    std::uint64_t looks = 0;          // core_transport::looks
    std::uint16_t by_other_nics = 0;  // which of them flushed, too
  };

  static int flush_by(reg::write_flush& flush, const transfer& t);
  [[nodiscard]] int flush_device(device::device& on);
  [[nodiscard]] bool is_flushed(const device::device& on, std::uint16_t other_nics) const noexcept {
    return last_.on == &on && last_.looks == core_.looks() &&
           (other_nics & ~last_.by_other_nics) == 0;
  }
  [[nodiscard]] bool can_flush_by_fin(const transfer& t) const noexcept;

  reg::write_flush* const flush_;
  const rail_settings& rails_;
  const device::device_registry& devices_;
  core_transport& core_;
  packet_channel& channel_;
  std::uint16_t other_writers_ = 0;  // by reg::other_nic::number
  moment last_;
};

}  // namespace gaudi::proto
