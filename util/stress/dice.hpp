// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gaudi::stress {

/// Random numbers that are the same on every host, as those of <random>'s distributions need not
/// be (splitmix64).
class dice {
 public:
  dice(std::uint64_t seed, std::uint64_t round, std::uint64_t purpose)
      : state_(scramble(scramble(scramble(seed) + round) + purpose)) {}

  std::uint64_t next() { return scramble(state_ += step); }

  /// 0 to limit - 1.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

  bool one_in(std::uint64_t count) { return below(count) == 0; }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t scramble(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace gaudi::stress
