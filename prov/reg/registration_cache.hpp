// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/inner_domain.hpp"

namespace gaudi::reg {

/// What the core's registration of an allocation is found by.
struct registration_name {
  std::uint64_t generation;  ///< device::location::generation
  std::uint64_t access;      ///< of FI_REMOTE_READ | FI_REMOTE_WRITE
  bool operator==(const registration_name&) const = default;
};

/// How much a cache keeps of what nobody uses. With either at 0 it keeps nothing.
struct cache_limits {
  std::size_t count = 0;    ///< registrations
  std::uint64_t bytes = 0;  ///< of device memory that they cover
};

/// Compare struct fi_gaudi_cache_stats.
struct cache_counters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t made = 0;
  std::uint64_t evictions = 0;
  std::uint64_t idle = 0;        // now
  std::uint64_t idle_bytes = 0;  // now
};

/// The core's registrations of device memory. One that has no user any more is kept for the next,
/// least recently used ones going first where the limits or the NIC want that. Thread safe: its own
/// lock, below a domain's, is held while the core ends a registration, so that an allocation that
/// is forgotten here is not known to the NIC any more either.
class registration_cache {
 public:
  class user;

  explicit registration_cache(const cache_limits& limits) noexcept : limits_(limits) {}
  /// All users are gone.
  ~registration_cache() = default;
  registration_cache(const registration_cache&) = delete;
  registration_cache& operator=(const registration_cache&) = delete;

  /// A further user of a known registration; none (false): not known. `part`, if any, counts what
  /// becomes of registrations of one kind, besides the cache's own counters. It is read with
  /// counters(), and outlives the cache.
  user find(const registration_name& name, cache_counters* part = nullptr) noexcept;
  /// The first user of a new one, which covers `bytes`. Throws std::bad_alloc.
  user add(const registration_name& name, std::uint64_t bytes, core::inner_mr made,
           cache_counters* part = nullptr);

  /// Ends the registration that has been without users for longest. False: none is.
  bool evict_oldest() noexcept;
  /// Ends all registrations of an allocation, which has no users any more.
  void forget(std::uint64_t generation) noexcept;
  /// Ends all that have no users.
  void forget_idle() noexcept;

  [[nodiscard]] cache_counters counters() const noexcept { return counters(counters_); }
  [[nodiscard]] cache_counters counters(const cache_counters& part) const noexcept;

 private:
  struct hash {
    std::size_t operator()(const registration_name& name) const noexcept {
      // FI_REMOTE_READ and FI_REMOTE_WRITE are bits 12 and 13; generations count up from 1.
      return name.generation << 2 ^ name.access >> 12;
    }
  };
  struct entry : boost::intrusive::list_base_hook<> {
    registration_cache* home = nullptr;
    registration_name name{};
    std::uint64_t bytes = 0;
    std::size_t users = 0;
    cache_counters* part = nullptr;
    core::inner_mr mr;
  };

  void give_back(entry& e) noexcept;
  // Under the lock.
  void count(std::uint64_t cache_counters::*what, cache_counters* part) noexcept;
  void make_idle(entry& e) noexcept;
  void leave_idle(entry& e) noexcept;
  void end(entry& idle) noexcept;
  void end_oldest() noexcept;
  [[nodiscard]] bool over_limits() const noexcept;

  const cache_limits limits_;
  mutable std::mutex mutex_;
  std::unordered_map<registration_name, entry, hash> all_;
  boost::intrusive::list<entry> idle_;  // without users, oldest first
  cache_counters counters_;
};

/// Uses a registration while it lives. The allocation is pinned for longer.
class registration_cache::user {
 public:
  user() = default;
  user(user&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  user& operator=(user&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~user() { reset(); }

  void reset() noexcept {
    if (entry* e = std::exchange(entry_, nullptr)) e->home->give_back(*e);
  }
  explicit operator bool() const noexcept { return entry_ != nullptr; }
  [[nodiscard]] const core::inner_mr* get() const noexcept {
    return entry_ ? &entry_->mr : nullptr;
  }
  const core::inner_mr* operator->() const noexcept { return &entry_->mr; }

 private:
  friend class registration_cache;
  explicit user(entry& e) noexcept : entry_(&e) {}

  entry* entry_ = nullptr;
};

/// One user of one of the core's registrations of device memory; or none.
using registration = registration_cache::user;

}  // namespace gaudi::reg
