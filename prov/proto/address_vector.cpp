// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/address_vector.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>

namespace gaudi::proto {

void address_vector::reserve(std::size_t count) noexcept {
  try {
    entries_.reserve(count);
    lowest_.reserve(count);
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

/// Puts entries_[index] into the chain of its address, which is ascending. An address is rarely
/// inserted twice, so chains are short.
void address_vector::link(fi_addr_t index) {
  const auto [head, is_new] = lowest_.try_emplace(entries_[index].address, index);
  if (is_new) return;
  fi_addr_t* at = &head->second;
  while (*at < index) at = &entries_[*at].next_same;
  entries_[index].next_same = *at;
  *at = index;
}

void address_vector::unlink(fi_addr_t index) noexcept {
  const auto head = lowest_.find(entries_[index].address);
  assert(head != lowest_.end());
  fi_addr_t* at = &head->second;
  while (*at != index) at = &entries_[*at].next_same;
  *at = entries_[index].next_same;
  if (head->second == FI_ADDR_NOTAVAIL) lowest_.erase(head);
}

base::result<fi_addr_t> address_vector::add(const net_address& address) noexcept {
  assert(!address.empty());
  fi_addr_t index = FI_ADDR_NOTAVAIL;
  try {
    index = take_index();
    entries_[index] = entry{.address = address};
    link(index);
  } catch (const std::bad_alloc&) {
    if (index != FI_ADDR_NOTAVAIL) {
      // An index from free_ left room there, so giving it back cannot fail.
      entries_[index] = {};
      if (index + 1 == entries_.size()) {
        entries_.pop_back();
      } else {
        free_.push(index);
      }
    }
    return base::error{-FI_ENOMEM};
  }
  for (listener* who : listeners_) who->added(index, entries_[index].address);
  return index;
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
  const auto found = lowest_.find(address);
  return found == lowest_.end() ? FI_ADDR_NOTAVAIL : found->second;
}

void address_vector::subscribe(listener& who) {
  listeners_.push_back(&who);
}

void address_vector::unsubscribe(listener& who) noexcept {
  std::erase(listeners_, &who);
}

}  // namespace gaudi::proto
