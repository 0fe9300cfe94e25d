// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>

namespace gaudi::proto {

/// Bytes of unexpected messages that an endpoint keeps, in all and for each of its peers. Half of
/// the limit is for whoever sends first, the rest is divided: a peer that floods the endpoint
/// leaves each other one its part, without which a pair that has nothing to do with the flood would
/// wait for ever. Not thread safe.
class unexpected_budget {
 public:
  /// `limit` in bytes.
  explicit unexpected_budget(std::size_t limit) noexcept : limit_(limit) {}

  /// What is kept of one peer; the budget's alone.
  class share {
   public:
    [[nodiscard]] bool empty() const noexcept { return kept_ == 0; }

   private:
    friend class unexpected_budget;
    std::size_t kept_ = 0;
  };

  void keep(share& s, std::size_t bytes) noexcept {
    kept_ += bytes;
    s.kept_ += bytes;
  }
  void drop(share& s, std::size_t bytes) noexcept {
    kept_ -= bytes;
    s.kept_ -= bytes;
  }

  /// Whether a peer, one of `peers`, is to send nothing more for now.
  [[nodiscard]] bool is_exceeded(const share& s, std::size_t peers) const noexcept {
    if (kept_ <= limit_ / 2) return false;
    const std::size_t floor = floor_of(std::max<std::size_t>(peers, 1));
    const std::size_t reserved =
        std::min(limit_ / 2, (std::max<std::size_t>(peers, 1) - 1) * floor);
    return s.kept_ > floor && kept_ > limit_ - reserved;
  }

  /// Bytes.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  // However many peers there are, each may have sent some short messages.
  static constexpr std::size_t min_floor = std::size_t{64} * 1024;

  [[nodiscard]] std::size_t floor_of(std::size_t peers) const noexcept {
    return std::max(limit_ / (2 * peers), std::min(limit_ / 2, min_floor));
  }

  const std::size_t limit_;
  std::size_t kept_ = 0;
};

}  // namespace gaudi::proto
