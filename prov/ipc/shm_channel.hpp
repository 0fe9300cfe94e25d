// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "ipc/fd_listener.hpp"
#include "ipc/host_kernel.hpp"
#include "ipc/peer_process.hpp"
#include "ipc/segment.hpp"

namespace gaudi::ipc {

/// The way to a peer on the same host: packets in both directions through shared memory, and, where
/// the kernel allows, one-copy access to the peer's memory. Not thread safe; nothing blocks.
class shm_channel {
 public:
  /// What an end brings.
  struct config {
    std::size_t largest_packet;                  ///< bytes
    bool sleeps;                                 ///< this end may wait on file descriptors
    std::size_t slots = 0;                       ///< of the creator's: staging slots each way
    std::size_t slot_size = 0;                   ///< of the creator's: bytes
    host_kernel* kernel = &host_kernel::real();  ///< outlives the channel
  };

  /// Makes the segment and sends it to the endpoint that `says` names. It is of use once that
  /// has agreed(). Errors of invite, memfd_create and mmap.
  static base::result<std::unique_ptr<shm_channel>> make(const fd_handshake_id& says,
                                                         const config& ours);
  /// Takes what a peer made, and tells it so. Errors of segment::take.
  static base::result<std::unique_ptr<shm_channel>> take(received_fd&& brought, const config& ours);

  ~shm_channel() { leave(); }
  shm_channel(const shm_channel&) = delete;
  shm_channel& operator=(const shm_channel&) = delete;

  /// For the creator: whether the peer has the segment; nothing: it has not said yet.
  [[nodiscard]] std::optional<bool> agreed();

  [[nodiscard]] const host_kernel& kernel() const noexcept { return kernel_; }
  [[nodiscard]] ring_writer& out() noexcept { return out_; }
  [[nodiscard]] ring_reader& in() noexcept { return in_; }
  /// Copies of the peer's memory to ours that it helps with.
  [[nodiscard]] cooperative_copies& cooperative_copies_to_us() noexcept {
    return cooperative_copies_;
  }
  /// The words of copies to the peer's memory, which it asks us to help with.
  [[nodiscard]] cooperative_copies::words& copy_state_of_peer() noexcept {
    return memory_.copy_state_of(other_);
  }
  /// Staging memory, cut in slots of slot_size() bytes: for what comes to us, and for what we send.
  [[nodiscard]] std::span<std::byte> slots_in() const noexcept { return memory_.slots_to(end_); }
  [[nodiscard]] std::span<std::byte> slots_out() const noexcept { return memory_.slots_to(other_); }
  [[nodiscard]] std::size_t slot_size() const noexcept { return memory_.shape().slot_size; }
  /// Whether the peer may wait on file descriptors (ring_writer::commit).
  [[nodiscard]] bool peer_sleeps() const noexcept { return peer_sleeps_; }
  /// The peer's memory; null: the kernel keeps it from us, see cma_errno().
  [[nodiscard]] const peer_memory* cma() const noexcept {
    return why_not_ == 0 ? peer_.get() : nullptr;
  }
  /// From now on the kernel keeps it from us, with this negative errno; the peer is told.
  void disable_cma(int why) noexcept;
  /// The peer is this process.
  [[nodiscard]] bool is_within_process() const noexcept {
    return peer_ && peer_->is_this_process();
  }
  /// Its process has ended. False also where that cannot be told.
  [[nodiscard]] bool peer_has_ended() const noexcept { return peer_ && peer_->has_ended(); }
  /// Whether the peer has a cma() of us, as it says.
  [[nodiscard]] cma_state peer_cma_state() noexcept {
    return memory_.peer_info_of(other_).cma.load(std::memory_order_acquire);
  }
  /// Tells the peer that this end is gone: before the application has its memory back.
  void leave() noexcept;
  /// Whether the peer has closed the connection: an address of its is nobody's any more.
  [[nodiscard]] bool peer_is_gone() noexcept { return peer_cma_state() == cma_state::gone; }
  /// Negative errno of peer_process::find, or of disable_cma; 0 while cma() is there.
  [[nodiscard]] int cma_errno() const noexcept { return why_not_; }

 private:
  shm_channel(segment memory, control_socket with, end which, const config& ours);
  void learn_of_peer();

  // What the peer may look for to see that it reads this process; its address must not change.
  const std::uint64_t cookie_;
  host_kernel& kernel_;
  segment memory_;
  control_socket handshake_;  // until the peer has agreed
  const end end_;
  const end other_;
  ring_writer out_;
  ring_reader in_;
  cooperative_copies cooperative_copies_;
  bool peer_sleeps_ = false;
  std::unique_ptr<peer_memory> peer_;
  int why_not_ = 0;
};

}  // namespace gaudi::ipc
