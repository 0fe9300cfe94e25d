// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/key_table.hpp"

#include <rdma/fi_errno.h>

namespace gaudi::reg {

void key_table::add_chosen_here(region& r, bool software) {
  const bool direct = r.core && r.virtual_address && !software;
  r.key = direct ? r.core.key() : software_bit | next_++;
  regions_.emplace(r.key, &r);
}

base::result<void> key_table::add_requested(region& r, std::uint64_t key) {
  if (!regions_.emplace(key, &r).second) return base::error{-FI_ENOKEY};
  r.key = key;
  return {};
}

void key_table::remove(const region& r) noexcept {
  const auto found = regions_.find(r.key);
  if (found != regions_.end() && found->second == &r) regions_.erase(found);
}

base::result<region*> key_table::find(std::uint64_t key, std::uint64_t address, std::size_t length,
                                      std::uint64_t access) const noexcept {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return base::error{-FI_EACCES};
  region& r = *found->second;
  if ((r.access & access) != access) return base::error{-FI_EACCES};
  const std::uint64_t first = r.virtual_address ? address : r.address + address;
  if (!r.holds(first, length)) return base::error{-FI_EACCES};
  return &r;
}

}  // namespace gaudi::reg
