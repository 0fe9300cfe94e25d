// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <tuple>

#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "reg/registration_cache.hpp"

namespace gaudi::reg {

/// An allocation of another process on this host.
struct import_key {
  std::uint64_t peer;        ///< its endpoint's random number: of no other, and of no later process
  std::uint64_t allocation;  ///< its number there (device::location::generation), never used twice

  friend bool operator<(const import_key& a, const import_key& b) noexcept {
    return std::tie(a.peer, a.allocation) < std::tie(b.peer, b.allocation);
  }
};

/// Device memory of another process, known to our NIC by its dma-buf.
struct imported {
  core::inner_mr mr;
  std::uint64_t first;   ///< device address, as its owner has it
  std::uint64_t length;  ///< bytes

  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t count) const noexcept {
    return address >= first && count <= length && address - first <= length - count;
  }
};

/// The dma-bufs that peers on this host have passed, each registered with the NIC of one domain so
/// that it can read them, and kept for the next transfer from there: until the peer frees the
/// memory or goes, or until others need the room. Not thread safe: the caller holds the domain
/// lock, also when it lets go of what it got from here.
class import_cache {
 public:
  using handle = std::shared_ptr<const imported>;

  import_cache(core::inner_domain& core, const cache_limits& limits) noexcept
      : core_(core), limits_(limits) {}
  import_cache(const import_cache&) = delete;
  import_cache& operator=(const import_cache&) = delete;

  /// Null: not known (any more); ask the peer.
  handle find(const import_key& name);
  /// Registers what the peer sent for this name; `sent.fd` stays the caller's. Where the name is
  /// known for another file, that one is forgotten. The NIC's errors
  /// (reg/registration_failure.hpp), and -errno for what is no open file. Throws std::bad_alloc.
  base::result<handle> add(const import_key& name, const core::dmabuf_range& sent);

  /// The peer has freed it. What still uses it is the last to do so.
  void forget(const import_key& name) noexcept;
  void forget_peer(std::uint64_t peer) noexcept;
  void clear() noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return by_name_.size(); }

 private:
  // A dma-buf keeps its inode for as long as anybody has it, as the NIC does here.
  struct file_identity {
    ::dev_t device;
    ::ino_t inode;
    bool operator==(const file_identity&) const = default;
  };
  struct entry {
    import_key name;
    file_identity file;
    handle memory;
  };
  using entries = std::list<entry>;

  base::result<core::inner_mr> register_with_room(const core::dmabuf_range& sent);
  bool evict_oldest() noexcept;
  void end(entries::iterator one) noexcept;
  [[nodiscard]] bool over_limits() const noexcept;

  core::inner_domain& core_;
  const cache_limits limits_;
  entries by_use_;  // the one that was wanted longest ago first
  std::map<import_key, entries::iterator> by_name_;
  std::uint64_t bytes_ = 0;
};

}  // namespace gaudi::reg
