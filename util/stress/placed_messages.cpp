// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "placed_messages.hpp"

#include <algorithm>
#include <tuple>

namespace gaudi::stress {

bool order_by_place(std::vector<placed_message>& come, std::size_t size) {
  // Empty messages are where the next one begins. Those at one place end in their order.
  std::stable_sort(come.begin(), come.end(), [](const placed_message& a, const placed_message& b) {
    return std::tuple(a.offset, a.message.length > 0) < std::tuple(b.offset, b.message.length > 0);
  });
  std::size_t end = 0;
  for (const placed_message& m : come) {
    if (m.offset < end || m.offset > size || m.message.length > size - m.offset) return false;
    end = m.offset + m.message.length;
  }
  return true;
}

}  // namespace gaudi::stress
