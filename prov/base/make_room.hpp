// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <new>

namespace gaudi::base {

/// Lets the next push_back or emplace_back of a vector allocate nothing, so that it can follow what
/// cannot be undone. False: there is no memory for it, and nothing has changed.
template <class Vector>
[[nodiscard]] bool make_room(Vector& v) noexcept {
  if (v.size() < v.capacity()) return true;
  constexpr std::size_t first = 8;
  try {
    v.reserve(v.empty() ? first : 2 * v.size());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace gaudi::base
