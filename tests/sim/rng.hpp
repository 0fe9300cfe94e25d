// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::sim {

/// Numbers that follow from a seed alone, the same on every machine (splitmix64).
class rng {
 public:
  explicit rng(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 to n - 1. n is not 0.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  /// Both ends included.
  std::uint64_t between(std::uint64_t least, std::uint64_t most) noexcept {
    return least + below(most - least + 1);
  }
  /// True `permille` times of 1000.
  bool chance(unsigned permille) noexcept { return permille != 0 && below(1000) < permille; }
  /// Numbers of its own for another part, which draws as many as it likes.
  rng split() noexcept { return rng(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace gaudi::sim
