// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "arena.hpp"

#include <iterator>

namespace synsim {

uint64_t arena::take(uint64_t size, uint64_t wanted) {
  if (size == 0 || size > size_) return 0;
  size = (size + granule - 1) / granule * granule;
  const uint64_t at = wanted == 0 ? gap_for(size) : is_free(wanted, size) ? wanted : 0;
  if (at == 0) return 0;
  pieces_[at] = size;
  free_bytes_ -= size;
  return at;
}

bool arena::give(uint64_t address) {
  const auto piece = pieces_.find(address);
  if (piece == pieces_.end()) return false;
  free_bytes_ += piece->second;
  pieces_.erase(piece);
  return true;
}

uint64_t arena::gap_for(uint64_t size) const {
  uint64_t at = first_;
  for (const auto& [taken, bytes] : pieces_) {
    if (taken - at >= size) return at;
    at = taken + bytes;
  }
  return first_ + size_ - at >= size ? at : 0;
}

bool arena::is_free(uint64_t address, uint64_t size) const {
  if (address % granule != 0 || address < first_ || size > size_ || address - first_ > size_ - size)
    return false;
  const auto next = pieces_.lower_bound(address);
  if (next != pieces_.end() && next->first - address < size) return false;
  return next == pieces_.begin() || address - std::prev(next)->first >= std::prev(next)->second;
}

}  // namespace synsim
