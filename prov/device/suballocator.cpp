// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/suballocator.hpp"

#include <iterator>

namespace gaudi::device {

void suballocator::add_free_extent(std::uint64_t base, std::uint64_t len, std::uint64_t region) {
  const auto at = extents_.emplace(base, extent{.len = len, .region = region, .node = {}}).first;
  try {
    free_.emplace(len, base);
  } catch (...) {
    extents_.erase(at);
    throw;
  }
}

void suballocator::add_region(std::uint64_t base, std::uint64_t len) {
  add_free_extent(base, len, base);
  free_bytes_ += len;
}

void suballocator::remove_region(std::uint64_t base) noexcept {
  const auto at = extents_.find(base);
  free_.erase({at->second.len, base});
  free_bytes_ -= at->second.len;
  extents_.erase(at);
}

std::optional<suballocator::block> suballocator::allocate(std::uint64_t len) {
  len = round_up(len);
  const auto fit = free_.lower_bound({len, 0});
  if (fit == free_.end()) return {};
  const std::uint64_t base = fit->second;
  extent& taken = extents_.at(base);
  if (taken.len > len) add_free_extent(base + len, taken.len - len, taken.region);
  taken.len = len;
  taken.node = free_.extract(fit);
  free_bytes_ -= len;
  return block{.base = base, .len = len, .region = taken.region};
}

void suballocator::absorb_next(extents::iterator at) noexcept {
  const auto next = std::next(at);
  if (next == extents_.end() || next->second.region != at->second.region) return;
  if (!at->second.is_free() || !next->second.is_free()) return;
  auto node = free_.extract({at->second.len, at->first});
  free_.erase({next->second.len, next->first});
  at->second.len += next->second.len;
  node.value() = {at->second.len, at->first};
  free_.insert(std::move(node));
  extents_.erase(next);
}

std::optional<suballocator::block> suballocator::free(std::uint64_t base) noexcept {
  const auto at = extents_.find(base);
  if (at == extents_.end() || at->second.is_free()) return {};
  const block freed{.base = base, .len = at->second.len, .region = at->second.region};
  at->second.node.value() = {freed.len, base};
  free_.insert(std::move(at->second.node));
  at->second.node = {};
  free_bytes_ += freed.len;
  absorb_next(at);
  if (at != extents_.begin()) absorb_next(std::prev(at));
  return freed;
}

bool suballocator::is_empty(std::uint64_t region) const noexcept {
  const auto at = extents_.find(region);
  if (at == extents_.end() || !at->second.is_free()) return false;
  const auto next = std::next(at);
  return next == extents_.end() || next->second.region != region;
}

}  // namespace gaudi::device
