// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/nic_copy_threshold.hpp"

#include <algorithm>

namespace gaudi::copy {
namespace {

// The engine has the CPU's time for submissions against it, and the clock its moods.
constexpr double clearly = 0.8;

std::uint64_t limit_of(const base::copy_overrides& wanted) noexcept {
  copy_table table;
  table.apply(wanted);
  return table.nic;
}

}  // namespace

nic_copy_threshold::nic_copy_threshold(const base::copy_overrides& wanted) noexcept
    : most_(limit_of(wanted)), is_open_(wanted.calibrate && !wanted.to_device().nic) {}

unsigned nic_copy_threshold::class_of(std::uint64_t length) noexcept {
  unsigned found = 0;
  for (std::uint64_t end = shortest; end < length && found + 1 < class_count; end *= 2) ++found;
  return found;
}

bool nic_copy_threshold::add_sample(std::uint64_t length, double ns) noexcept {
  one_class& of = classes_[class_of(length)];
  of.min_ns = std::min(of.min_ns, ns);
  return ++of.copies == first_copies;
}

bool nic_copy_threshold::update(std::uint64_t length, const copy_row& engine,
                                bool flushes) noexcept {
  if (!engine.is_measured()) return false;
  const unsigned which = class_of(length);
  const auto min_copy =
      std::min_element(classes_.begin(), classes_.end(),
                       [](const one_class& a, const one_class& b) { return a.min_ns < b.min_ns; });
  const double nic = classes_[which].min_ns + (flushes ? min_copy->min_ns : 0);
  const auto longest = static_cast<double>(shortest << which);
  const double by_engine = engine.latency_ns + longest / engine.bytes_per_ns;
  if (by_engine >= clearly * nic) return false;
  const std::uint64_t below = which == 0 ? 0 : shortest << (which - 1);
  const bool is_lower = below < most_;
  most_ = std::min(most_, below);
  return is_lower;
}

}  // namespace gaudi::copy
