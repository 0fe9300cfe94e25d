// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rates.hpp"

#include <algorithm>
#include <tuple>

namespace gaudi::top {
namespace {

/// The same process, and not a later one that has its number.
const process* find(const sample* in, const process& wanted) {
  if (!in) return nullptr;
  for (const process& p : in->processes)
    if (p.pid == wanted.pid && p.counters.start_time == wanted.counters.start_time) return &p;
  return nullptr;
}

const subject* find(const process* in, const subject& wanted) {
  if (!in) return nullptr;
  for (const subject& s : in->counters.subjects)
    if (s.is_same(wanted)) return &s;
  return nullptr;
}

/// What was not there before began at 0.
value_list counted_since(const subject* before, const subject& now) {
  value_list counted{};
  for_each_value(now.kind, [&](std::size_t place, base::counters::behaviour behaves) {
    if (behaves == base::counters::behaviour::level) return;
    const std::uint64_t earlier = before ? before->values[place] : 0;
    // Never below 0, as a page can be that was read while a block went.
    const std::uint64_t later = now.values[place];
    counted[place] = later > earlier ? later - earlier : 0;
  });
  return counted;
}

void add_to(total& sum, const change& one) {
  for (const auto& value : base::counters::values_of(sum.kind)) {
    sum.counted[value.place] += one.counted[value.place];
    if (value.kind == base::counters::behaviour::level)
      sum.levels[value.place] += one.now->values[value.place];
  }
}

}  // namespace

changes between(const sample* before, const sample& now) {
  changes all;
  if (before) all.seconds = std::chrono::duration<double>(now.taken_at - before->taken_at).count();
  for (const process& p : now.processes) {
    const process* const earlier = find(before, p);
    for (const subject& s : p.counters.subjects)
      all.subjects.push_back({&p, &s, counted_since(find(earlier, s), s)});
  }
  return all;
}

std::uint64_t bytes_of(const value_list& c) {
  return get(c, "eager_bytes") + get(c, "direct_bytes") + get(c, "staged_bytes") +
         get(c, "cma_bytes") + get(c, "engine_bytes");
}

std::uint64_t operations_of(const value_list& c) {
  return get(c, "eager_ops") + get(c, "direct_ops") + get(c, "staged_ops") + get(c, "cma_ops") +
         get(c, "engine_ops");
}

std::uint64_t stalls_of(const value_list& c) {
  return get(c, "peer_stalls") + get(c, "local_stalls");
}

path_shares shares_of(const value_list& c) {
  const auto all = static_cast<double>(bytes_of(c));
  if (all == 0) return {};
  const std::uint64_t direct = get(c, "direct_bytes");
  // Zero copy is a part of it; of a page in motion it may be the larger for a moment.
  const std::uint64_t zero_copy = std::min(get(c, "zero_copy_bytes"), direct);
  return {static_cast<double>(zero_copy) / all, static_cast<double>(direct - zero_copy) / all,
          static_cast<double>(get(c, "staged_bytes")) / all,
          static_cast<double>(get(c, "eager_bytes")) / all,
          static_cast<double>(get(c, "cma_bytes") + get(c, "engine_bytes")) / all};
}

std::optional<double> hit_rate_of(const value_list& c) {
  const std::uint64_t hits = get(c, "mr_cache_hits");
  const std::uint64_t all = hits + get(c, "mr_cache_misses");
  if (all == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(all);
}

std::vector<total> totals_of(const changes& all, block_kind kind) {
  std::vector<total> totals;
  const bool is_device = kind == block_kind::device;
  for (const change& one : all.subjects) {
    if (one.now->kind != kind) continue;
    total sum{kind, one.now->number, one.now->name, is_device ? one.now->detail : "", {}, {}};
    const auto known = std::find_if(totals.begin(), totals.end(), [&](const total& other) {
      return std::tie(other.number, other.name, other.detail) ==
             std::tie(sum.number, sum.name, sum.detail);
    });
    add_to(known == totals.end() ? totals.emplace_back(std::move(sum)) : *known, one);
  }
  std::sort(totals.begin(), totals.end(), [](const total& a, const total& b) {
    return std::tie(a.number, a.name, a.detail) < std::tie(b.number, b.name, b.detail);
  });
  return totals;
}

}  // namespace gaudi::top
