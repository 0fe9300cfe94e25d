// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/registration_cache.hpp"

#include <rdma/fabric.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace gaudi::reg {
namespace {

constexpr std::array<std::uint64_t, 4> all_accesses{0, FI_REMOTE_READ, FI_REMOTE_WRITE,
                                                    FI_REMOTE_READ | FI_REMOTE_WRITE};
constexpr std::size_t first_buckets = 64;

}  // namespace

// Without the lock it may go astray while entries come and go, and then finds nothing.
registration_cache::entry* registration_cache::look_up(key k) const noexcept {
  const bucket_array* const buckets = buckets_.load(std::memory_order_acquire);
  if (!buckets) return nullptr;
  entry* e = buckets->of(k).load(std::memory_order_acquire);
  while (e && e->name.load(std::memory_order_relaxed) != k)
    e = e->next.load(std::memory_order_acquire);
  return e;
}

registration_cache::entry* registration_cache::enter(key k) const noexcept {
  entry* const e = look_up(k);
  if (!e) return nullptr;
  auto seen = e->uses.load();
  while (versioned_refcount::lives(seen) && e->name.load(std::memory_order_relaxed) == k) {
    if (e->uses.enter(seen)) return e;
  }
  return nullptr;
}

// Exact for callers that come one after the other, as those of a domain do: another exchange would
// be a fifth of a hit.
inline void registration_cache::note_hit(entry& e) const noexcept {
  const std::uint64_t hits = e.hits.load(std::memory_order_relaxed) + 1;
  e.hits.store(hits, std::memory_order_relaxed);
  if (hits % published_counters::hits_at_once == 0) [[unlikely]]
    seen_.hits.fetch_add(published_counters::hits_at_once, std::memory_order_relaxed);
}

inline registration_cache::entry* registration_cache::enter_any(
    std::span<const cache_key> names) const noexcept {
  for (const cache_key& name : names) {
    entry* const e = enter(key_of(name));
    if (!e) continue;
    note_hit(*e);
    return e;
  }
  return nullptr;
}

registration registration_cache::find(const cache_key& name, cache_counters* part) noexcept {
  if (!over_capacity_.load(std::memory_order_acquire)) {
    if (entry* const e = enter(key_of(name))) {
      note_hit(*e);
      return registration(*e, *this);
    }
  }
  return find_any({&name, 1}, part);
}

registration registration_cache::find_any(std::span<const cache_key> names,
                                          cache_counters* part) noexcept {
  if (!over_capacity_.load(std::memory_order_acquire)) {
    if (entry* const e = enter_any(names)) return registration(*e, *this);
  }
  const base::scoped_lock lock(mutex_);
  entry* const e = enter_any(names);
  if (!e) {
    count(&cache_counters::misses, part);
    return {};
  }
  if (e->rest->idle_place.is_linked()) leave_idle(*e);
  return registration(*e, *this);
}

registration registration_cache::add(const cache_key& name, std::uint64_t bytes,
                                     core::inner_mr made, cache_counters* part, retention kept) {
  const base::scoped_lock lock(mutex_);
  assert(!look_up(key_of(name)));
  grow();
  note_window(name);
  entry& e = take_free();
  count(&cache_counters::made, part);
  // One that would drive all others out is not kept, nor is any where nothing is.
  const bool fits = limits_.count != 0 && bytes <= limits_.bytes;
  e.kept = fits ? kept : retention::drop_on_last_use;
  e.rest->bytes = bytes;
  e.rest->part = part;
  e.mr = std::move(made);
  e.last_use.store(UINT64_MAX, std::memory_order_relaxed);  // not the last one, whatever that was
  e.name.store(key_of(name), std::memory_order_relaxed);
  e.uses.begin();
  link(e);
  all_.push_back(*e.rest);
  if (e.kept == retention::cache_idle) {
    ++kept_;
    kept_bytes_ += bytes;
    publish();
    if (!over_capacity_ && (kept_ > limits_.count || kept_bytes_ > limits_.bytes))
      enter_over_capacity();
  }
  return registration(e, *this);
}

registration_cache::entry& registration_cache::take_free() {
  if (entry* const e = free_list_) {
    free_list_ = e->next.load(std::memory_order_relaxed);
    return *e;
  }
  record& rest = records_.emplace_back();
  entry& fresh = entries_.emplace_back();
  fresh.rest = &rest;
  rest.of = &fresh;
  return fresh;
}

// Arrays that were outgrown live on for readers; they double, so together they take no more than
// the current one.
void registration_cache::grow() {
  const bucket_array* const now = buckets_.load(std::memory_order_relaxed);
  if (now && all_.size() <= now->mask) return;
  arrays_.push_back(std::make_unique<bucket_array>(now ? 2 * (now->mask + 1) : first_buckets));
  buckets_.store(arrays_.back().get(), std::memory_order_release);
  for (const record& r : all_) link(*r.of);
}

void registration_cache::link(entry& e) noexcept {
  bucket& b = buckets_.load(std::memory_order_relaxed)->of(e.name.load(std::memory_order_relaxed));
  e.next.store(b.load(std::memory_order_relaxed), std::memory_order_release);
  b.store(&e, std::memory_order_release);
}

void registration_cache::unlink(const entry& e) noexcept {
  bucket* at =
      &buckets_.load(std::memory_order_relaxed)->of(e.name.load(std::memory_order_relaxed));
  while (at->load(std::memory_order_relaxed) != &e) at = &at->load(std::memory_order_relaxed)->next;
  at->store(e.next.load(std::memory_order_relaxed), std::memory_order_release);
}

void registration_cache::note_use(entry& e) noexcept {
  // What threads note at the same time may count as one use.
  const std::uint64_t last = uses_.load(std::memory_order_relaxed);
  if (e.last_use.load(std::memory_order_relaxed) == last) return;
  uses_.store(last + 1, std::memory_order_relaxed);
  e.last_use.store(last + 1, std::memory_order_relaxed);
}

void registration_cache::give_back(entry& e) noexcept {
  note_use(e);
  const std::uint64_t left = e.uses.leave();
  // After that: retire() changes it first, and looks for users then.
  const bool kept = e.kept.load(std::memory_order_seq_cst) == retention::cache_idle;
  if (versioned_refcount::is_used(left) ||
      (kept && !over_capacity_.load(std::memory_order_seq_cst)))
    return;
  const base::scoped_lock lock(mutex_);
  // It may be in use again meanwhile, or no registration any more, or another one.
  if (e.uses.load() == left) fell_idle(e);
}

void registration_cache::fell_idle(entry& e) noexcept {
  if (e.kept == retention::drop_on_last_use) {
    end(e);
  } else if (over_capacity_) {
    if (e.rest->idle_place.is_linked()) leave_idle(e);
    make_idle(e);
    while (idle_.size() > limits_.count || idle_bytes_ > limits_.bytes) end_oldest();
  }
}

// From here on each that falls idle is told. One that did so just before is found here: its users
// count themselves out before they look whether it is over capacity.
void registration_cache::enter_over_capacity() noexcept {
  over_capacity_.store(true, std::memory_order_seq_cst);
  for (const record& r : all_) {
    if (r.of->kept == retention::cache_idle && r.of->uses.is_idle()) make_idle(*r.of);
  }
  idle_.sort([](const record& a, const record& b) {
    return a.of->last_use.load(std::memory_order_relaxed) <
           b.of->last_use.load(std::memory_order_relaxed);
  });
}

void registration_cache::leave_over_capacity() noexcept {
  idle_.clear();
  idle_bytes_ = 0;
  over_capacity_.store(false, std::memory_order_release);
}

void registration_cache::make_idle(entry& e) noexcept {
  idle_.push_back(*e.rest);
  idle_bytes_ += e.rest->bytes;
}

void registration_cache::leave_idle(entry& e) noexcept {
  idle_.erase(idle_.iterator_to(*e.rest));
  idle_bytes_ -= e.rest->bytes;
}

bool registration_cache::end(entry& e) noexcept {
  if (!e.uses.end()) return false;
  record& rest = *e.rest;
  if (rest.idle_place.is_linked()) leave_idle(e);
  const std::uint64_t hits = e.hits.exchange(0, std::memory_order_relaxed);
  counters_.hits += hits;
  seen_.hits.fetch_add(hits % published_counters::hits_at_once, std::memory_order_relaxed);
  if (rest.part) rest.part->hits += hits;
  unlink(e);
  all_.erase(all_.iterator_to(rest));
  if (e.kept == retention::cache_idle) {
    --kept_;
    kept_bytes_ -= rest.bytes;
    publish();
  }
  e.mr = {};
  e.next.store(std::exchange(free_list_, &e), std::memory_order_release);
  // Not at the first one below the limits: a full cache stays over capacity.
  if (over_capacity_ && kept_ <= limits_.count / 2 && kept_bytes_ <= limits_.bytes / 2)
    leave_over_capacity();
  return true;
}

bool registration_cache::end_oldest() noexcept {
  while (!idle_.empty()) {
    entry& oldest = *idle_.front().of;
    cache_counters* const part = oldest.rest->part;
    if (end(oldest)) {
      count(&cache_counters::evictions, part);
      return true;
    }
    // Its user came before the cache was over capacity.
    leave_idle(oldest);
  }
  return false;
}

bool registration_cache::evict_oldest() noexcept {
  const base::scoped_lock lock(mutex_);
  // Who has too little room elsewhere will ask again.
  if (!over_capacity_) enter_over_capacity();
  return end_oldest();
}

bool registration_cache::knows(std::uint64_t allocation_id) const noexcept {
  const base::scoped_lock lock(mutex_);
  return std::any_of(all_accesses.begin(), all_accesses.end(), [&](std::uint64_t access) {
    return look_up(key_of({allocation_id, access})) != nullptr;
  });
}

void registration_cache::note_window(const cache_key& name) {
  if (name.window == 0) return;
  auto& known = windows_[name.allocation_id];
  if (std::find(known.begin(), known.end(), name.window) == known.end())
    known.push_back(name.window);
}

void registration_cache::forget(const cache_key& name) noexcept {
  entry* const known = look_up(key_of(name));
  if (!known) return;
  [[maybe_unused]] const bool ended = end(*known);
  assert(ended);
}

void registration_cache::forget(std::uint64_t allocation_id) noexcept {
  const base::scoped_lock lock(mutex_);
  const auto windows = windows_.extract(allocation_id);
  for (const std::uint64_t access : all_accesses) {
    forget({allocation_id, access});
    if (windows.empty()) continue;
    for (const std::uint64_t number : windows.mapped()) forget({allocation_id, access, number});
  }
}

void registration_cache::forget_idle() noexcept {
  const base::scoped_lock lock(mutex_);
  for (auto at = all_.begin(); at != all_.end();) end(*(at++)->of);
}

void registration_cache::keep_no_longer(entry& e) noexcept {
  if (e.kept.exchange(retention::drop_on_last_use, std::memory_order_seq_cst) ==
      retention::drop_on_last_use)
    return;
  --kept_;
  kept_bytes_ -= e.rest->bytes;
  publish();
}

void registration_cache::retire(const cache_counters& part) noexcept {
  const base::scoped_lock lock(mutex_);
  for (auto at = all_.begin(); at != all_.end();) {
    const record& r = *at++;
    if (r.part != &part) continue;
    keep_no_longer(*r.of);
    if (r.of->uses.is_idle()) end(*r.of);
  }
}

void registration_cache::count(std::uint64_t cache_counters::*what, cache_counters* part) noexcept {
  ++(counters_.*what);
  if (part) ++(part->*what);
  publish();
}

void registration_cache::publish() noexcept {
  seen_.misses = counters_.misses;
  seen_.made = counters_.made;
  seen_.evictions = counters_.evictions;
  seen_.cached = kept_;
  seen_.cached_bytes = kept_bytes_;
}

cache_counters registration_cache::sum(const cache_counters& ended,
                                       const cache_counters* part) const noexcept {
  cache_counters all = ended;
  for (const record& r : all_) {
    if (part && r.part != part) continue;
    const entry& e = *r.of;
    all.hits += e.hits.load(std::memory_order_relaxed);
    if (!e.uses.is_idle()) continue;
    ++all.idle;
    all.idle_bytes += r.bytes;
  }
  return all;
}

}  // namespace gaudi::reg
