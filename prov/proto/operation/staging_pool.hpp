// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {

/// Buffers that an endpoint's transfers share, with a quota for each peer: one that takes nothing
/// any more keeps what it has until it goes, and that must not be all. A peer that is alone may
/// have every buffer; one of several may have half of them; and every peer may have a few, which
/// are made for it where none is left. Not thread safe: the caller holds the domain lock.
class staging_pool {
 public:
  /// Buffers that a peer has in any case: one is filled while another is emptied.
  static constexpr std::uint32_t floor = 2;
  /// Of the pools for chunks and for slots.
  static constexpr std::size_t buffers_per_slab = 4;
  /// Depth of both together, in transfers at full depth, of so many buffers each.
  static constexpr std::size_t limit_for(std::size_t staging_depth) noexcept {
    constexpr std::size_t staged_at_once = 8;
    return staged_at_once * staging_depth;
  }

  /// buffer_size in bytes, per_slab and limit in buffers; `limit`: for all peers, without their
  /// floors; `peers_may` as buffer_slab::create.
  staging_pool(core::inner_domain& core, std::size_t buffer_size, std::size_t per_slab,
               std::size_t limit, std::uint64_t peers_may = 0) noexcept
      : pool_(core, posted_op::kind::chunk, buffer_size, per_slab, SIZE_MAX, peers_may),
        limit_(limit) {}

  /// For a peer, one of `peers`, whose share outlives the buffer. Null: its quota is used up, all
  /// buffers are in use, or memory is short; one comes back by release().
  [[nodiscard]] buffer* acquire(staging_share& share, std::size_t peers) noexcept {
    const bool has_room = in_use_ < limit_ && (peers <= 1 || share.held < limit_ / 2);
    if (share.held >= floor && !has_room) return nullptr;
    buffer* const b = pool_.acquire();
    if (!b) return nullptr;
    ++in_use_;
    ++share.held;
    b->home.share = &share;
    b->home.pool = this;
    return b;
  }

  /// Neither the core nor a device may still use it.
  void release(buffer& b) noexcept {
    --in_use_;
    --std::exchange(b.home.share, nullptr)->held;
    came_back_ = true;
    pool_.release(b);
  }

  /// As buffer_pool::free_all.
  void free_all() noexcept { pool_.free_all(); }

  /// Whether to try again what was given null: a buffer came back since forget_returns(), or none
  /// will.
  [[nodiscard]] bool is_worth_another_try() const noexcept { return came_back_ || in_use_ == 0; }
  void forget_returns() noexcept { came_back_ = false; }

  /// Buffers that peers have.
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }

 private:
  buffer_pool pool_;
  const std::size_t limit_;
  std::size_t in_use_ = 0;
  bool came_back_ = false;
};

}  // namespace gaudi::proto
