// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "untagged.hpp"

namespace gaudi::stress {

/// A message in a buffer that takes many.
struct placed_message {
  std::size_t offset = 0;  ///< in the buffer
  arrival message{};
};

/// Puts messages of one sender, as they ended, into the order of their places, which is that of
/// sending. False when two overlap or one is not within `size` bytes.
bool order_by_place(std::vector<placed_message>& come, std::size_t size);

}  // namespace gaudi::stress
