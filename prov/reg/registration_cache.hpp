// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <boost/container/deque.hpp>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "core/inner_domain.hpp"
#include "reg/versioned_refcount.hpp"

namespace gaudi::reg {

/// What the core's registration of an allocation is found by.
struct cache_key {
  std::uint64_t allocation_id;  ///< device::location::generation, or a number of dmabuf_ids
  std::uint64_t access;         ///< of FI_REMOTE_READ | FI_REMOTE_WRITE
  std::uint64_t window = 0;     ///< window::number
  bool operator==(const cache_key&) const = default;
};

/// How much a cache keeps of what nobody uses. With either at 0 it keeps nothing.
struct cache_limits {
  std::size_t count = 0;    ///< registrations
  std::uint64_t bytes = 0;  ///< of device memory that they cover
};

/// What becomes of a registration that has no user any more.
enum class retention : std::uint8_t {
  cache_idle,  ///< as far as the limits go
  drop_on_last_use,
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

/// What others see of a domain's registrations (base/counter_names.hpp). Hits come here by
/// `hits_at_once` of one registration; those that threads have at the same time may be lost or
/// counted twice.
struct published_counters {
  static constexpr std::uint64_t hits_at_once = 16;

  std::atomic<std::uint64_t> hits{0};
  // Under the lock of the cache, the domain's registrar or its flush.
  std::uint64_t misses = 0;
  std::uint64_t made = 0;
  std::uint64_t evictions = 0;
  std::uint64_t cached = 0;        // now
  std::uint64_t cached_bytes = 0;  // now
  std::uint64_t refusals = 0;
  std::uint64_t flushes = 0;
};

/// The core's registrations of device memory. One that has no user any more is kept for the next,
/// least recently used ones going first where the limits or the NIC want that. Thread safe: its own
/// lock, below a domain's, is held while the core ends a registration, so that an allocation that
/// is forgotten here is not known to the NIC any more either.
///
/// While all that there are would fit the limits, a hit takes no lock: it looks up the entry and
/// counts itself among its users, in one word with what tells that the entry is still the same.
/// Above that the cache is over capacity: hits and last users take the lock and keep the order in
/// which entries fell idle. Entries stay where they are until the cache goes, whatever becomes of
/// them, since a reader may be looking.
class registration_cache {
 public:
  class handle;

  /// `seen`, if any, outlives the cache.
  explicit registration_cache(const cache_limits& limits, published_counters* seen = nullptr)
      : limits_(limits), seen_(seen ? *seen : unseen_) {}
  /// All users are gone.
  ~registration_cache() = default;
  registration_cache(const registration_cache&) = delete;
  registration_cache& operator=(const registration_cache&) = delete;

  /// A further user of a known registration; none (false): not known. `part`, if any, counts what
  /// becomes of registrations of one kind, besides the cache's own counters. It is read with
  /// counters(), and outlives the cache. Hits that threads have at the same time may count as one.
  handle find(const cache_key& name, cache_counters* part = nullptr) noexcept;
  /// The same of the first of these that is known, as one look-up.
  handle find_any(std::span<const cache_key> names, cache_counters* part = nullptr) noexcept;
  /// The first user of a new one, which covers `bytes`; with retention::drop_on_last_use it ends
  /// with its last user. Throws std::bad_alloc.
  handle add(const cache_key& name, std::uint64_t bytes, core::inner_mr made,
             cache_counters* part = nullptr, retention kept = retention::cache_idle);

  /// Ends the registration that has been without users for longest. False: none is.
  bool evict_oldest() noexcept;
  /// Whether there is any registration of that number.
  [[nodiscard]] bool knows(std::uint64_t allocation_id) const noexcept;
  /// Ends all registrations of an allocation, which has no users any more.
  void forget(std::uint64_t allocation_id) noexcept;
  /// Ends all that have no users.
  void forget_idle() noexcept;
  /// Ends all that count for `part`: those that have users, with the last of them.
  void retire(const cache_counters& part) noexcept;

  /// These look at all there are.
  [[nodiscard]] cache_counters counters() const noexcept {
    const base::scoped_lock lock(mutex_);
    return sum(counters_, nullptr);
  }
  [[nodiscard]] cache_counters counters(const cache_counters& part) const noexcept {
    const base::scoped_lock lock(mutex_);
    return sum(part, &part);
  }

 private:
  // A name in one word.
  using key = std::uint64_t;
  static constexpr unsigned window_shift = 42;
  static key key_of(const cache_key& name) noexcept {
    // FI_REMOTE_READ and FI_REMOTE_WRITE are bits 12 and 13. Generations of allocations have 40
    // bits (device::pin_count), and only these have windows, of 20.
    return name.allocation_id << 2 | (name.access >> 12 & 3) | name.window << window_shift;
  }

  struct record;

  // What a hit looks at, in one line of the processor's cache. These lie close together, since with
  // many of them a hit takes as long as it takes to fetch this line.
  struct alignas(64) entry {
    versioned_refcount uses;
    std::atomic<key> name{0};
    std::atomic<entry*> next{nullptr};  // in its bucket, or among the spare ones
    std::atomic<std::uint64_t> last_use{0};
    std::atomic<std::uint64_t> hits{0};
    core::inner_mr mr;
    record* rest = nullptr;
    std::atomic<retention> kept{retention::cache_idle};
  };
  static_assert(sizeof(entry) == 64);

  // The rest of an entry, which only the lock's holder looks at.
  struct record {
    entry* of = nullptr;
    std::uint64_t bytes = 0;
    cache_counters* part = nullptr;
    boost::intrusive::list_member_hook<> idle_place;
    boost::intrusive::list_member_hook<> place;
  };
  template <boost::intrusive::list_member_hook<> record::*Hook>
  using list_by = boost::intrusive::list<
      record, boost::intrusive::member_hook<record, boost::intrusive::list_member_hook<>, Hook>>;
  using entry_blocks = boost::container::deque_options<boost::container::block_bytes<4096>>::type;
  using bucket = std::atomic<entry*>;
  struct bucket_array {
    explicit bucket_array(std::size_t count)
        : first(std::make_unique<bucket[]>(count)), mask(count - 1) {}
    [[nodiscard]] bucket& of(key k) const noexcept {
      // Allocations made one after the other are neighbours; accesses and windows of one are not.
      return first[((k >> 2) ^ ((k & 3) | (k >> window_shift << 2)) * 0x9e3779b1U) & mask];
    }
    std::unique_ptr<bucket[]> first;
    std::size_t mask;
  };

  [[nodiscard]] entry* look_up(key k) const noexcept;
  [[nodiscard]] entry* enter(key k) const noexcept;
  [[nodiscard]] entry* enter_any(std::span<const cache_key> names) const noexcept;
  void note_hit(entry& e) const noexcept;
  void note_use(entry& e) noexcept;
  void give_back(entry& e) noexcept;
  [[nodiscard]] cache_counters sum(const cache_counters& ended,
                                   const cache_counters* part) const noexcept
      GAUDI_REQUIRES(mutex_);
  entry& take_free() GAUDI_REQUIRES(mutex_);
  void grow() GAUDI_REQUIRES(mutex_);
  void link(entry& e) noexcept GAUDI_REQUIRES(mutex_);
  void unlink(const entry& e) noexcept GAUDI_REQUIRES(mutex_);
  void note_window(const cache_key& name) GAUDI_REQUIRES(mutex_);
  void forget(const cache_key& name) noexcept GAUDI_REQUIRES(mutex_);
  void fell_idle(entry& e) noexcept GAUDI_REQUIRES(mutex_);
  void keep_no_longer(entry& e) noexcept GAUDI_REQUIRES(mutex_);
  void enter_over_capacity() noexcept GAUDI_REQUIRES(mutex_);
  void leave_over_capacity() noexcept GAUDI_REQUIRES(mutex_);
  void make_idle(entry& e) noexcept GAUDI_REQUIRES(mutex_);
  void leave_idle(entry& e) noexcept GAUDI_REQUIRES(mutex_);
  bool end(entry& e) noexcept GAUDI_REQUIRES(mutex_);  // false: it has a user
  bool end_oldest() noexcept GAUDI_REQUIRES(mutex_);
  void count(std::uint64_t cache_counters::*what, cache_counters* part) noexcept
      GAUDI_REQUIRES(mutex_);
  void publish() noexcept GAUDI_REQUIRES(mutex_);

  const cache_limits limits_;
  std::atomic<const bucket_array*> buckets_{nullptr};
  std::atomic<bool> over_capacity_{false};
  alignas(64) std::atomic<std::uint64_t> uses_{0};  // tells of two uses which was later

  alignas(64) mutable base::mutex mutex_;
  // Once made, there for good. (Boost's own allocator does not align them.)
  boost::container::deque<entry, std::allocator<entry>, entry_blocks> entries_
      GAUDI_GUARDED_BY(mutex_);
  std::deque<record> records_ GAUDI_GUARDED_BY(mutex_);
  entry* free_list_ GAUDI_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::unique_ptr<bucket_array>> arrays_
      GAUDI_GUARDED_BY(mutex_);  // the last one is current
  list_by<&record::place> all_ GAUDI_GUARDED_BY(mutex_);
  // Of each generation the windows, but the whole, that were ever registered.
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> windows_ GAUDI_GUARDED_BY(mutex_);
  // Of these for the next user, used or not, and what they cover.
  std::uint64_t kept_ GAUDI_GUARDED_BY(mutex_) = 0;
  std::uint64_t kept_bytes_ GAUDI_GUARDED_BY(mutex_) = 0;
  list_by<&record::idle_place> idle_
      GAUDI_GUARDED_BY(mutex_);  // over capacity: those without users, oldest first
  std::uint64_t idle_bytes_ GAUDI_GUARDED_BY(mutex_) = 0;
  cache_counters counters_
      GAUDI_GUARDED_BY(mutex_);  // but hits of those that there are, and what is idle
  published_counters unseen_;
  published_counters& seen_;
};

/// Uses a registration while it lives. The allocation is pinned for longer.
class registration_cache::handle {
 public:
  handle() = default;
  handle(handle&& other) noexcept
      : entry_(std::exchange(other.entry_, nullptr)), cache_(other.cache_) {}
  handle& operator=(handle&& other) noexcept {
    std::swap(entry_, other.entry_);
    std::swap(cache_, other.cache_);
    return *this;
  }
  ~handle() { reset(); }

  void reset() noexcept {
    if (entry* e = std::exchange(entry_, nullptr)) cache_->give_back(*e);
  }
  explicit operator bool() const noexcept { return entry_ != nullptr; }
  [[nodiscard]] const core::inner_mr* get() const noexcept {
    return entry_ ? &entry_->mr : nullptr;
  }
  const core::inner_mr* operator->() const noexcept { return &entry_->mr; }

 private:
  friend class registration_cache;
  handle(entry& e, registration_cache& of) noexcept : entry_(&e), cache_(&of) {}

  entry* entry_ = nullptr;
  registration_cache* cache_ = nullptr;
};

/// One user of one of the core's registrations of device memory; or none.
using registration = registration_cache::handle;

}  // namespace gaudi::reg
