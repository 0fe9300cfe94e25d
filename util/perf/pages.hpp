// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

namespace gaudi::perf {

/// Visits 0 .. count-1, each once, so that neighbours in the order are apart in memory.
class scattered_order {
 public:
  /// Orders of another `turn` differ.
  scattered_order(std::size_t count, unsigned turn) noexcept;
  std::size_t operator[](std::size_t i) const noexcept { return i * stride_ % count_; }

 private:
  std::size_t count_;
  std::size_t stride_;
};

/// Whether the page is followed by others of its batch for the NIC (FI_MORE).
bool more_follow(std::size_t page, std::size_t pages) noexcept;

}  // namespace gaudi::perf
