// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/registration_cache.hpp"

#include <rdma/fabric.h>

#include <array>
#include <cassert>
#include <utility>

namespace gaudi::reg {
namespace {

constexpr std::array<std::uint64_t, 4> all_accesses{0, FI_REMOTE_READ, FI_REMOTE_WRITE,
                                                    FI_REMOTE_READ | FI_REMOTE_WRITE};

}  // namespace

void registration_cache::count(std::uint64_t cache_counters::*what, cache_counters* part) noexcept {
  ++(counters_.*what);
  if (part) ++(part->*what);
}

void registration_cache::make_idle(entry& e) noexcept {
  idle_.push_back(e);
  for (cache_counters* c : {&counters_, e.part}) {
    if (!c) continue;
    ++c->idle;
    c->idle_bytes += e.bytes;
  }
}

void registration_cache::leave_idle(entry& e) noexcept {
  idle_.erase(idle_.iterator_to(e));
  for (cache_counters* c : {&counters_, e.part}) {
    if (!c) continue;
    --c->idle;
    c->idle_bytes -= e.bytes;
  }
}

registration registration_cache::find(const registration_name& name,
                                      cache_counters* part) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(name);
  if (found == all_.end()) {
    count(&cache_counters::misses, part);
    return {};
  }
  count(&cache_counters::hits, part);
  entry& e = found->second;
  if (e.users++ == 0) leave_idle(e);
  return registration(e);
}

registration registration_cache::add(const registration_name& name, std::uint64_t bytes,
                                     core::inner_mr made, cache_counters* part) {
  const std::lock_guard lock(mutex_);
  const auto [at, added] = all_.try_emplace(name);
  assert(added);
  count(&cache_counters::made, part);
  entry& e = at->second;
  e.home = this;
  e.name = name;
  e.bytes = bytes;
  e.users = 1;
  e.part = part;
  e.mr = std::move(made);
  return registration(e);
}

void registration_cache::give_back(entry& e) noexcept {
  const std::lock_guard lock(mutex_);
  if (--e.users != 0) return;
  make_idle(e);
  // One that would drive all others out is not kept, nor is any where nothing is.
  if (limits_.count == 0 || e.bytes > limits_.bytes) return end(e);
  while (over_limits()) end_oldest();
}

bool registration_cache::over_limits() const noexcept {
  return idle_.size() > limits_.count || counters_.idle_bytes > limits_.bytes;
}

void registration_cache::end(entry& idle) noexcept {
  assert(idle.users == 0);
  leave_idle(idle);
  all_.erase(all_.find(idle.name));
}

void registration_cache::end_oldest() noexcept {
  count(&cache_counters::evictions, idle_.front().part);
  end(idle_.front());
}

bool registration_cache::evict_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return false;
  end_oldest();
  return true;
}

void registration_cache::forget(std::uint64_t generation) noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t access : all_accesses) {
    const auto found = all_.find({generation, access});
    if (found != all_.end()) end(found->second);
  }
}

void registration_cache::forget_idle() noexcept {
  const std::lock_guard lock(mutex_);
  while (!idle_.empty()) end(idle_.front());
}

cache_counters registration_cache::counters(const cache_counters& part) const noexcept {
  const std::lock_guard lock(mutex_);
  return part;
}

}  // namespace gaudi::reg
