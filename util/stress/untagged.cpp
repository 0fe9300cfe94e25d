// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "untagged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/failure.hpp"

namespace gaudi::stress {

std::optional<std::size_t> find_unsent(const round_plan& plan,
                                       const std::vector<std::size_t>& messages,
                                       const std::vector<arrival>& come) {
  auto next = messages.begin();
  for (std::size_t i = 0; i < come.size(); ++i) {
    next = std::find_if(next, messages.end(), [&](std::size_t number) {
      const planned& p = plan.operations[number];
      return p.size == come[i].length &&
             (!has_data(p.op) || come[i].data == message_id(plan, number));
    });
    if (next == messages.end()) return i;
    ++next;
  }
  return std::nullopt;
}

void require_sent(const round_plan& plan, const std::vector<std::size_t>& messages,
                  const std::vector<arrival>& come, unsigned sender) {
  if (const auto unsent = find_unsent(plan, messages, come))
    throw common::failure(
        fmt::format("WRONG DATA: {} bytes have come that worker {} did not send then (round {})",
                    come[*unsent].length, sender, plan.round));
}

}  // namespace gaudi::stress
