// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/key_table.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace gaudi::reg {

void key_table::add_chosen_here(region& r, bool software) {
  const core::inner_mr* known = r.virtual_address && !software ? r.core_for_peers() : nullptr;
  r.key = known ? known->key() : software_bit | next_++;
  regions_.emplace(r.key, &r);
}

base::result<void> key_table::add_requested(region& r, std::uint64_t key) {
  if (regions_.contains(key)) return base::error{-FI_ENOKEY};
  regions_.emplace(key, &r);
  r.key = key;
  return {};
}

void key_table::remove(const region& r) noexcept {
  const auto [first, last] = regions_.equal_range(r.key);
  const auto found = std::find_if(first, last, [&](const auto& e) { return e.second == &r; });
  if (found != last) regions_.erase(found);
}

base::result<region*> key_table::find(std::uint64_t key, std::uint64_t address, std::size_t length,
                                      std::uint64_t access) const noexcept {
  const auto [first, last] = regions_.equal_range(key);
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    const region& r = *entry.second;
    const std::uint64_t begin = r.virtual_address ? address : r.address + address;
    return (r.access & access) == access && r.holds(begin, length);
  });
  if (found == last) return base::error{-FI_EACCES};
  return found->second;
}

}  // namespace gaudi::reg
