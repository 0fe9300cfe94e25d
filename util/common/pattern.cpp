// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace gaudi::common {
namespace {

constexpr std::size_t word_size = sizeof(std::uint64_t);

// An odd multiplier with well spread bits (2^64 divided by the golden ratio).
constexpr std::uint64_t spread = 0x9e3779b97f4a7c15;

constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 32)) * spread;
  return value ^ (value >> 29);
}

}  // namespace

pattern::pattern(std::size_t size, std::uint64_t iteration, unsigned direction)
    : seed_(mix(mix(size * spread + iteration) + direction)) {}

std::uint64_t pattern::word(std::uint64_t index) const {
  return mix(seed_ + index * spread);
}

void pattern::fill(std::span<std::byte> out, std::size_t offset) const {
  std::uint64_t index = offset / word_size;
  for (std::size_t done = 0; done < out.size(); done += word_size, ++index) {
    const std::uint64_t value = word(index);
    std::memcpy(out.data() + done, &value, std::min(word_size, out.size() - done));
  }
}

std::optional<std::size_t> pattern::find_difference(std::span<const std::byte> in,
                                                    std::size_t offset) const {
  std::uint64_t index = offset / word_size;
  for (std::size_t done = 0; done < in.size(); done += word_size, ++index) {
    const std::uint64_t value = word(index);
    const std::size_t length = std::min(word_size, in.size() - done);
    if (std::memcmp(in.data() + done, &value, length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&value);
    const auto difference = std::mismatch(expected, expected + length, in.data() + done).first;
    return offset + done + static_cast<std::size_t>(difference - expected);
  }
  return std::nullopt;
}

}  // namespace gaudi::common
