// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::sim {

/// What happened in one schedule, for people: kept only while a failure is explained.
class trace {
 public:
  /// Something that went from one node to another, or happened at one (from == to).
  void arrow(std::uint64_t when, unsigned from, unsigned to, std::string text) {
    lines_.push_back({when, from, to, std::move(text)});
  }
  /// A sequence diagram: a column for each node, the oldest line first. At most `most` lines:
  /// the first and the last ones.
  [[nodiscard]] std::string diagram(unsigned nodes, std::size_t most) const;

 private:
  struct line {
    std::uint64_t when;
    unsigned from;
    unsigned to;
    std::string text;
  };
  std::vector<line> lines_;
};

}  // namespace gaudi::sim
