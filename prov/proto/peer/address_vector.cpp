// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/peer/address_vector.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>
#include <utility>

namespace gaudi::proto {

void address_vector::reserve(std::size_t count) noexcept {
  try {
    entries_.reserve(count);
    chains_.reserve(count);
  } catch (const std::exception&) {
    // Insertion reports what really does not fit.
  }
}

fi_addr_t address_vector::take_index() {
  if (free_.empty()) {
    entries_.emplace_back();
    return entries_.size() - 1;
  }
  const fi_addr_t index = free_.top();
  free_.pop();
  return index;
}

/// Puts entries_[index] into the chain of its address. The search is for an index that was freed
/// between others of the address; a new one goes to the end.
void address_vector::link(fi_addr_t index) {
  const auto [found, is_new] = chains_.try_emplace(entries_[index].address, chain{index, index});
  if (is_new) return;
  chain& same = found->second;
  fi_addr_t next = index > same.highest ? FI_ADDR_NOTAVAIL : same.lowest;
  while (next < index) next = entries_[next].next_same;
  const fi_addr_t last = next == FI_ADDR_NOTAVAIL ? same.highest : entries_[next].last_same;
  entries_[index].next_same = next;
  entries_[index].last_same = last;
  (next == FI_ADDR_NOTAVAIL ? same.highest : entries_[next].last_same) = index;
  (last == FI_ADDR_NOTAVAIL ? same.lowest : entries_[last].next_same) = index;
}

void address_vector::unlink(fi_addr_t index) noexcept {
  const auto found = chains_.find(entries_[index].address);
  assert(found != chains_.end());
  chain& same = found->second;
  const auto [next, last] = std::pair(entries_[index].next_same, entries_[index].last_same);
  if (same.lowest == same.highest) {
    chains_.erase(found);
    return;
  }
  (next == FI_ADDR_NOTAVAIL ? same.highest : entries_[next].last_same) = last;
  (last == FI_ADDR_NOTAVAIL ? same.lowest : entries_[last].next_same) = next;
}

base::result<fi_addr_t> address_vector::add(const net_address& address) noexcept {
  assert(!address.empty());
  fi_addr_t index = FI_ADDR_NOTAVAIL;
  try {
    index = take_index();
    entries_[index] = entry{.address = address};
    link(index);
  } catch (const std::bad_alloc&) {
    if (index != FI_ADDR_NOTAVAIL) give_index_back(index);
    return base::error{-FI_ENOMEM};
  }
  std::size_t told = 0;
  try {
    for (; told < listeners_.size(); ++told) listeners_[told]->added(index, address);
  } catch (const std::bad_alloc&) {
    unlink(index);
    give_index_back(index);
    while (told-- > 0) listeners_[told]->removed(index, address);
    return base::error{-FI_ENOMEM};
  }
  return index;
}

// An index from free_ left room there, so this cannot fail.
void address_vector::give_index_back(fi_addr_t index) noexcept {
  entries_[index] = {};
  if (index + 1 == entries_.size()) {
    entries_.pop_back();
  } else {
    free_.push(index);
  }
}

base::result<void> address_vector::remove(fi_addr_t index) noexcept {
  if (!find(index)) return base::error{-FI_EINVAL};
  const net_address address = entries_[index].address;
  try {
    free_.push(index);
  } catch (const std::bad_alloc&) {
    return base::error{-FI_ENOMEM};
  }
  unlink(index);
  entries_[index] = {};
  for (listener* who : listeners_) who->removed(index, address);
  return {};
}

fi_addr_t address_vector::index_of(const net_address& address) const noexcept {
  const auto found = chains_.find(address);
  return found == chains_.end() ? FI_ADDR_NOTAVAIL : found->second.lowest;
}

void address_vector::subscribe(listener& who) {
  listeners_.push_back(&who);
}

void address_vector::unsubscribe(listener& who) noexcept {
  std::erase(listeners_, &who);
}

}  // namespace gaudi::proto
