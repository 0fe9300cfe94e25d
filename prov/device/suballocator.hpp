// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace gaudi::device {

/// Cuts big regions (a Gaudi2 hands out 768 MiB pages and nothing smaller) into allocations: best
/// fit, neighbours merged when freed, never across two regions, because a dma-buf covers one. Pure
/// bookkeeping by address; not thread safe. Members that can throw (std::bad_alloc) leave it as it
/// was.
class suballocator {
 public:
  /// Alignment and unit of all allocations: the page that exports and NICs count in.
  static constexpr std::uint64_t granule = 4096;

  struct block {
    std::uint64_t base;
    std::uint64_t len;     ///< rounded up to the granule
    std::uint64_t region;  ///< base of the region it lies in
  };

  static constexpr std::uint64_t round_up(std::uint64_t len) noexcept {
    return (len + granule - 1) & ~(granule - 1);
  }

  /// A region to allocate from; base and length are multiples of the granule, and it overlaps no
  /// other.
  void add_region(std::uint64_t base, std::uint64_t len);
  /// Takes back a region in which nothing is allocated.
  void remove_region(std::uint64_t base) noexcept;

  /// The smallest free block that fits, or nothing. `len` > 0.
  std::optional<block> allocate(std::uint64_t len);
  /// Frees what allocate gave. Nothing: no allocation begins at `base`.
  std::optional<block> free(std::uint64_t base) noexcept;

  [[nodiscard]] bool is_empty(std::uint64_t region) const noexcept;
  [[nodiscard]] std::uint64_t free_bytes() const noexcept { return free_bytes_; }

 private:
  using sizes = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // (length, base)
  struct extent {
    std::uint64_t len;
    std::uint64_t region;
    // The extent's place in free_, kept here while it is in use, so that free() need not allocate.
    sizes::node_type node;
    [[nodiscard]] bool is_free() const noexcept { return node.empty(); }
  };
  using extents = std::map<std::uint64_t, extent>;

  void add_free_extent(std::uint64_t base, std::uint64_t len, std::uint64_t region);
  /// Appends the extent after `at` to it if both are free parts of one region.
  void absorb_next(extents::iterator at) noexcept;

  extents extents_;  // every byte of every region, used or free
  sizes free_;
  std::uint64_t free_bytes_ = 0;
};

}  // namespace gaudi::device
