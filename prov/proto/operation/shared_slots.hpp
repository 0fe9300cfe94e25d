// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <span>
#include <vector>

#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/staging_pool.hpp"

namespace gaudi::proto {

/// Staging slots in memory that a peer on this host has mapped, too: one end's device writes to
/// them, the other's reads them, and no CPU touches the data. Whoever receives gives slots out, by
/// number; who sends fills those that it was given. Pinned once on each device that copies to or
/// from them. Not thread safe: the caller holds the domain lock.
class shared_slots {
 public:
  /// As many slots of `slot_size` bytes as `area` has; it outlives them.
  shared_slots(std::span<std::byte> area, std::size_t slot_size);

  /// For the receiver: a slot that is not given out; null: there is none.
  [[nodiscard]] buffer* acquire() noexcept;
  /// For the sender: the slot with this number; null: there is none, or it is in use here.
  [[nodiscard]] buffer* take(std::uint64_t number) noexcept;
  /// No device may still use it.
  void release(buffer& b) noexcept { b.home.taken = false; }

  [[nodiscard]] std::size_t count() const noexcept { return slab_->buffers().size(); }
  [[nodiscard]] std::size_t slot_size() const noexcept { return slab_->buffer_size(); }
  [[nodiscard]] std::uint64_t number_of(const buffer& b) const noexcept {
    return static_cast<std::uint64_t>(b.bytes - slab_->base()) / slot_size();
  }

 private:
  std::unique_ptr<buffer_slab> slab_;
};

/// A buffer of a staging_pool or a shared slot goes back to where it is from. Neither the core nor
/// a device may still use it.
void release_staging(buffer& b) noexcept;

}  // namespace gaudi::proto
