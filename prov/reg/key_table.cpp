// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/key_table.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/random_source.hpp"

namespace gaudi::reg {
namespace {

constexpr unsigned first_bits = 6;

}  // namespace

void key_table::add_chosen_here(region& r, bool software) {
  make_room();
  const core::inner_mr* known = r.virtual_address && !software ? r.core_for_peers() : nullptr;
  r.key = known ? known->key() : software_key();
  link(r);
  ++count_;
}

// A key is all that a peer needs: nobody may guess one that another peer was given.
std::uint64_t key_table::software_key() noexcept {
  for (;;) {
    const std::uint64_t key = software_bit | base::random_source{}.next();
    if (!has(key)) return key;
  }
}

bool key_table::has(std::uint64_t key) noexcept {
  for (const region* at = chain(key); at; at = at->next_of_key) {
    if (at->key == key) return true;
  }
  return false;
}

base::result<void> key_table::add_requested(region& r, std::uint64_t key) {
  make_room();
  if (has(key)) return base::error{-FI_ENOKEY};
  r.key = key;
  link(r);
  ++count_;
  return {};
}

void key_table::link(region& r) noexcept {
  region*& first = chain(r.key);
  r.next_of_key = first;
  r.link_of_key = &first;
  if (first) first->link_of_key = &r.next_of_key;
  first = &r;
}

void key_table::remove(region& r) noexcept {
  if (!r.link_of_key) return;
  *r.link_of_key = r.next_of_key;
  if (r.next_of_key) r.next_of_key->link_of_key = r.link_of_key;
  r.link_of_key = nullptr;
  --count_;
}

void key_table::make_room() {
  if (count_ < chains_.size()) return;
  const unsigned bits = chains_.empty() ? first_bits : bits_ + 1;
  // Nothing has changed yet where this throws.
  std::vector<region*> larger(std::size_t{1} << bits);
  bits_ = bits;
  const auto before = std::exchange(chains_, std::move(larger));
  for (region* at : before) {
    while (at) link(*std::exchange(at, at->next_of_key));
  }
}

base::result<region*> key_table::find(std::uint64_t key, std::uint64_t address, std::size_t length,
                                      std::uint64_t access) const noexcept {
  if (chains_.empty()) return base::error{-FI_EACCES};
  for (region* at = chains_[place_of(key)]; at; at = at->next_of_key) {
    if (at->key != key || (at->access & access) != access) continue;
    const std::uint64_t begin = at->virtual_address ? address : at->address + address;
    if (at->holds(begin, length)) return at;
  }
  return base::error{-FI_EACCES};
}

}  // namespace gaudi::reg
