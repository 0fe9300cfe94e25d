// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gaudi::common {

/// The bytes of one message. They depend on its size, its iteration, its direction and the offset
/// of the byte, so that bytes of another message, lost, doubled or moved ones all differ.
class pattern {
 public:
  pattern(std::size_t size, std::uint64_t iteration, unsigned direction);

  /// Writes the bytes that start `offset` bytes into the message; offset is a multiple of 8.
  void fill(std::span<std::byte> out, std::size_t offset) const;

  /// The offset in the message of the first byte that differs, if one does.
  std::optional<std::size_t> find_difference(std::span<const std::byte> in,
                                             std::size_t offset) const;

 private:
  std::uint64_t word(std::uint64_t index) const;
  std::uint64_t seed_;
};

}  // namespace gaudi::common
