// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "hl/mapping_watch.hpp"

namespace gaudi::interpose {

/// An open device, whatever descriptor it is used by.
struct context_id {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const context_id&) const = default;
  bool operator<(const context_id& other) const noexcept {
    return std::tie(device, inode) < std::tie(other.device, other.inode);
  }
};

/// What the application has allocated and mapped on its devices, and who wants to hear of it.
/// Thread safe. Subscribers are told under the lock, so that each hears of everything once and in
/// order; out of a call they may unsubscribe. Where memory runs out something stays unknown; the
/// application's own calls do not fail for it.
class known_mappings {
  using name = std::pair<context_id, std::uint64_t>;
  struct range {
    int fd;
    std::uint64_t len;
  };

 public:
  struct subscriber {
    void* context;
    hl::watch_abi::mapped_call mapped;
    hl::watch_abi::unmapping_call unmapping;
  };

  /// Of the process; never destroyed, since other libraries may call until the very end.
  static known_mappings& instance() noexcept;

  void allocated(context_id on, std::uint64_t handle, std::uint64_t size) noexcept;
  void mapped(context_id on, int fd, std::uint64_t handle, std::uint64_t va) noexcept;

  // What is about to go is taken off the books before the driver lets it go: from then on another
  // thread may be given the same handle or address, which is another one's then.

  using taken_allocation = std::map<name, std::uint64_t>::node_type;
  /// Empty: its allocation was not seen.
  taken_allocation freeing(context_id on, std::uint64_t handle) noexcept;
  /// The driver did not free it.
  void put_back(taken_allocation kept) noexcept;

  using taken_mapping = std::map<name, range>::node_type;
  /// Tells that it goes. Empty: it is not device memory that was seen being mapped.
  taken_mapping unmapping(context_id on, int fd, std::uint64_t va) noexcept;
  /// The driver did not unmap it: it is told as mapped again.
  void put_back(taken_mapping kept) noexcept;

  /// Tells that all that is mapped there goes: it does with the context.
  void closed(context_id on) noexcept;

  int subscribe(const subscriber& who) noexcept;
  void unsubscribe(void* context) noexcept;

 private:
  // The caller holds the lock.
  void tell_mapped(int fd, std::uint64_t va, std::uint64_t len) noexcept;
  void tell_unmapping(int fd, std::uint64_t va) noexcept;

  std::recursive_mutex mutex_;
  std::map<name, std::uint64_t> sizes_;  // by handle
  std::map<name, range> ranges_;         // by address
  std::vector<subscriber> subscribers_;
};

}  // namespace gaudi::interpose
