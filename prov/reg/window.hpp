// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gaudi::reg {

/// How long the shortest windows are: a power of two from 8 KiB up. 0: each allocation is one.
class window_size {
 public:
  static constexpr std::uint64_t least = 8192;

  constexpr window_size() = default;
  /// Rounded up to what it can be; a size above the half of all addresses is none.
  static constexpr window_size at_least(std::uint64_t bytes) noexcept {
    window_size made;
    if (bytes != 0 && bytes <= std::uint64_t{1} << 62)
      made.shift_ = static_cast<unsigned>(std::bit_width(std::max(bytes, least) - 1));
    return made;
  }

  [[nodiscard]] constexpr unsigned shift() const noexcept { return shift_; }

 private:
  unsigned shift_ = 0;
};

/// The part of an allocation that one registration covers: all of it, or where that is long, as
/// Synapse's pool is, which is nearly the whole device, a window of it. A NIC keeps an entry for
/// each page of a registration (mlx5 for 4 KiB of a dma-buf: 200 MB of them for 96 GiB), and is
/// long about so many, though an application uses a part. A BAR that does not show all of the
/// device's memory is no matter of windows: the driver looks at the whole allocation then, whatever
/// part of it is exported (prov/docs/device.md, 3.2).
///
/// Windows of one size begin at the multiples of half of it, so each range of up to that half is
/// inside one; for a longer range there are windows of twice the size, and so on. So there are few
/// windows, however many different ranges are wanted. Even ones are preferred: ranges that cross
/// none of their borders share them.
struct window {
  std::uint64_t number;  ///< below `numbers`, of no other window of the allocation; 0: the whole
  std::uint64_t offset;  ///< bytes, of its first one in the allocation
  std::uint64_t length;  ///< bytes
  unsigned shift;        ///< of its size, before it was cut at the allocation's end

  static constexpr std::uint64_t numbers = std::uint64_t{1} << 20;
};

/// The smallest window that holds [offset, offset + length), a range inside an allocation of
/// `whole` bytes, of those that are not smaller than 2^from bytes.
constexpr window window_for(std::uint64_t whole, std::uint64_t offset, std::uint64_t length,
                            window_size shortest, unsigned from = 0) noexcept {
  std::uint64_t first_number = 1;  // of those of this size
  for (unsigned shift = shortest.shift(); shift != 0 && whole >> shift != 0; ++shift) {
    const std::uint64_t size = std::uint64_t{1} << shift;
    const std::uint64_t half = offset >> (shift - 1);
    for (const std::uint64_t at : {half & ~std::uint64_t{1}, half}) {
      const std::uint64_t begin = at << (shift - 1);
      const bool fits = shift >= from && length <= size - (offset - begin);
      if (fits && first_number + at < window::numbers)
        return {first_number + at, begin, std::min(size, whole - begin), shift};
    }
    first_number += ((whole - 1) >> (shift - 1)) + 1;
  }
  return {0, 0, whole, 64};
}

}  // namespace gaudi::reg
