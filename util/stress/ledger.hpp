// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "counts.hpp"

namespace gaudi::stress {

/// What was sent from whom to whom in a round, as both ends counted it.
class ledger {
 public:
  void add(unsigned worker, const traffic& counted) {
    for (const auto& [peer, count] : counted.to) sent_[{worker, peer}] += count;
    for (const auto& [peer, count] : counted.from) received_[{peer, worker}] += count;
  }

  /// Where the two differ, in words.
  std::optional<std::string> find_imbalance() const;

 private:
  std::map<std::pair<unsigned, unsigned>, std::uint64_t> sent_;
  std::map<std::pair<unsigned, unsigned>, std::uint64_t> received_;
};

}  // namespace gaudi::stress
