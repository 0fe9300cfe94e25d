// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ledger.hpp"

#include <fmt/format.h>

#include <set>

namespace gaudi::stress {

std::optional<std::string> ledger::find_imbalance() const {
  std::set<std::pair<unsigned, unsigned>> pairs;
  for (const auto& [pair, count] : sent_) pairs.insert(pair);
  for (const auto& [pair, count] : received_) pairs.insert(pair);
  const auto count_of = [](const auto& by_pair, const auto& pair) {
    const auto found = by_pair.find(pair);
    return found == by_pair.end() ? 0 : found->second;
  };
  for (const auto& pair : pairs) {
    const std::uint64_t sent = count_of(sent_, pair);
    const std::uint64_t received = count_of(received_, pair);
    if (sent != received)
      return fmt::format("UNBALANCED: worker {} sent {} to worker {}, which received {}",
                         pair.first, sent, pair.second, received);
  }
  return std::nullopt;
}

}  // namespace gaudi::stress
