// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "latencies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

namespace gaudi::top {
namespace {

void add(histogram& to, const histogram& from) {
  to.count += from.count;
  to.sum += from.sum;
  for (std::size_t i = 0; i < to.buckets.size(); ++i) to.buckets[i] += from.buckets[i];
}

}  // namespace

std::string_view operation_name(int number) {
  const auto& names = base::counters::latency_names;
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < names.size() ? names[at] : "other";
}

histogram histogram_of(const value_list& values) {
  histogram h;
  h.count = values[0];
  h.sum = values[1];
  std::copy_n(values.begin() + base::counters::first_bucket, h.buckets.size(), h.buckets.begin());
  return h;
}

std::uint64_t count_of(const histogram& h) {
  return std::accumulate(h.buckets.begin(), h.buckets.end(), std::uint64_t{0});
}

std::optional<std::uint64_t> quantile_of(const histogram& h, double part) {
  const std::uint64_t count = count_of(h);
  if (count == 0) return std::nullopt;
  const auto wanted = std::max<std::uint64_t>(
      static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count))), 1);
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (bucket + 1 < h.buckets.size() && (seen += h.buckets[bucket]) < wanted) ++bucket;
  return histogram::bound_of(bucket);
}

std::string duration_text(std::uint64_t nanoseconds) {
  static constexpr std::array units{"ns", "us", "ms", "s"};
  auto value = static_cast<double>(nanoseconds);
  std::size_t unit = 0;
  // 999.5 would be written as 1000.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", value, value < 9.95 && unit != 0 ? 1 : 0, units[unit]);
}

std::vector<operation_latency> latencies_of(const changes& all) {
  std::map<int, histogram> of_late;
  std::map<int, histogram> of_all_time;
  for (const change& one : all.subjects) {
    if (one.now->kind != block_kind::latency) continue;
    add(of_late[one.now->number], histogram_of(one.counted));
    add(of_all_time[one.now->number], histogram_of(one.now->values));
  }
  std::vector<operation_latency> found;
  for (const auto& [number, times] : of_late) {
    const histogram& wanted = count_of(times) != 0 ? times : of_all_time[number];
    if (count_of(wanted) != 0) found.push_back({number, wanted});
  }
  return found;
}

}  // namespace gaudi::top
