// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

/// Maps fi_addr_t to peers' addresses and back. A fi_addr_t is an index from 0, the lowest unused
/// one at the time of insertion (fi_av(3)), for FI_AV_MAP as for FI_AV_TABLE. The same address may
/// be inserted several times; each gets an index of its own. Not thread safe: every call is made
/// under the domain lock.
class address_vector {
 public:
  /// Told of every change, under the domain lock; must not change the vector in the call.
  class listener {
   public:
    virtual ~listener() = default;
    virtual void added(fi_addr_t index, const net_address& address) = 0;
    virtual void removed(fi_addr_t index, const net_address& address) = 0;
  };

  /// Room for `count` addresses without another allocation. A hint: ignored where memory is short.
  void reserve(std::size_t count) noexcept;

  /// Inserts `address`, which is not empty. -FI_ENOMEM leaves the vector as it was.
  base::result<fi_addr_t> add(const net_address& address) noexcept;
  /// -FI_EINVAL: nothing is at `index`.
  base::result<void> remove(fi_addr_t index) noexcept;

  /// The address at `index`, valid until the next change; nullptr when nothing is there.
  [[nodiscard]] const net_address* find(fi_addr_t index) const noexcept {
    if (index >= entries_.size() || entries_[index].address.empty()) return nullptr;
    return &entries_[index].address;
  }
  /// The lowest index that holds `address`; FI_ADDR_NOTAVAIL when none does.
  [[nodiscard]] fi_addr_t index_of(const net_address& address) const noexcept;
  /// Addresses in the vector.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size() - free_.size(); }
  /// One past the highest index in use now or before.
  [[nodiscard]] fi_addr_t end() const noexcept { return entries_.size(); }

  /// `who` is told of changes until unsubscribe(who); it must outlive that.
  void subscribe(listener& who);
  void unsubscribe(listener& who) noexcept;

 private:
  struct entry {
    net_address address;                     ///< empty: unused
    fi_addr_t next_same = FI_ADDR_NOTAVAIL;  ///< next higher index with the same address
    fi_addr_t last_same = FI_ADDR_NOTAVAIL;  ///< next lower one
  };

  fi_addr_t take_index();
  void give_index_back(fi_addr_t index) noexcept;
  void link(fi_addr_t index);
  void unlink(fi_addr_t index) noexcept;

  std::vector<entry> entries_;
  std::priority_queue<fi_addr_t, std::vector<fi_addr_t>, std::greater<>> free_;
  /// The indices of one address, as a chain in ascending order.
  struct chain {
    fi_addr_t lowest;
    fi_addr_t highest;
  };
  std::unordered_map<net_address, chain> chains_;
  std::vector<listener*> listeners_;
};

}  // namespace gaudi::proto
