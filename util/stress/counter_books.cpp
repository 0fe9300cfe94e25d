// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counter_books.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gaudi::stress {
namespace {

constexpr std::size_t index_of(counted_kind kind) {
  return static_cast<std::size_t>(kind);
}

}  // namespace

counted_kind counter_books::kind_of(operation op) {
  if (is_message(op)) return counted_kind::send;
  const bool fetches = op == operation::read || op == operation::fetch || op == operation::compare;
  return fetches ? counted_kind::read : counted_kind::write;
}

void counter_books::add(counted_kind kind, bool succeeded) {
  counter_value& value = expected_.at(index_of(kind));
  ++(succeeded ? value.succeeded : value.failed);
}

std::uint64_t counter_books::total() const {
  std::uint64_t sum = injected_;
  for (const counter_value& value : expected_) sum += value.succeeded + value.failed;
  return sum;
}

counter_books::verdict counter_books::compare_one(std::size_t kind, const counter_values& now,
                                                  bool has_loss) const {
  const std::uint64_t succeeded = now.at(kind).succeeded - before_.at(kind).succeeded;
  const std::uint64_t failed = now.at(kind).failed - before_.at(kind).failed;
  const counter_value& expected = expected_.at(kind);
  const std::uint64_t injected = kind == index_of(counted_kind::send) ? injected_ : 0;
  const std::uint64_t may_fail = has_loss ? injected : 0;
  const std::uint64_t all = expected.succeeded + expected.failed + injected;
  if (succeeded > expected.succeeded + injected || failed > expected.failed + may_fail)
    return verdict::wrong;
  if (succeeded + failed > all) return verdict::wrong;
  return succeeded + failed == all ? verdict::balanced : verdict::late;
}

counter_books::verdict counter_books::compare(const counter_values& now, bool has_loss) const {
  verdict worst = verdict::balanced;
  for (std::size_t kind = 0; kind < now.size(); ++kind)
    worst = std::max(worst, compare_one(kind, now, has_loss));
  return worst;
}

std::optional<std::string> counter_books::find_imbalance(const counter_values& now,
                                                         bool has_loss) const {
  for (std::size_t kind = 0; kind < now.size(); ++kind) {
    if (compare_one(kind, now, has_loss) == verdict::balanced) continue;
    const std::uint64_t injected = kind == index_of(counted_kind::send) ? injected_ : 0;
    return fmt::format("the counter for {} has counted {} and {} errors, but {} and {} have ended",
                       counted_kinds.at(kind), now.at(kind).succeeded - before_.at(kind).succeeded,
                       now.at(kind).failed - before_.at(kind).failed,
                       expected_.at(kind).succeeded + injected, expected_.at(kind).failed);
  }
  return std::nullopt;
}

}  // namespace gaudi::stress
