// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "common/pattern.hpp"
#include "common/sizes.hpp"

// Messages in memory that the CPU does not reach: they are made and compared piece by piece in host
// memory, and copied.

namespace gaudi::common {

/// Bytes of a piece that is worth a copy: inside the processor's cache, and a multiple of the
/// pattern's word, as every `scratch` below must be that does not hold the whole message.
inline constexpr std::size_t piece_size = mib;

/// Makes a message of `size` bytes; `store(offset in the message, piece)` copies each piece to its
/// place.
template <class Store>
void fill_in_pieces(const pattern& bytes, std::size_t size, std::span<std::byte> scratch,
                    Store store) {
  for (std::size_t done = 0; done < size; done += scratch.size()) {
    const auto piece = scratch.first(std::min(scratch.size(), size - done));
    bytes.fill(piece, done);
    store(done, std::span<const std::byte>(piece));
  }
}

/// Offset in the message of the first byte that is not the pattern's; `load(offset in the message,
/// piece)` copies each piece from its place. Nothing is loaded behind the difference's piece.
template <class Load>
std::optional<std::size_t> find_difference_in_pieces(const pattern& bytes, std::size_t size,
                                                     std::span<std::byte> scratch, Load load) {
  for (std::size_t done = 0; done < size; done += scratch.size()) {
    const auto piece = scratch.first(std::min(scratch.size(), size - done));
    load(done, piece);
    if (const auto where = bytes.find_difference(piece, done)) return where;
  }
  return std::nullopt;
}

}  // namespace gaudi::common
