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

/// Room for `count` elements, and when there was none for twice as many, so that a vector whose
/// count grows by one at a time is moved now and then only. Throws std::bad_alloc, and nothing has
/// changed then.
template <class Vector>
void reserve_ahead(Vector& v, std::size_t count) {
  if (v.capacity() < count) v.reserve(2 * count);
}

}  // namespace gaudi::base
