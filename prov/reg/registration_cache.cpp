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

registration registration_cache::find(const registration_name& name) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = all_.find(name);
  if (found == all_.end()) {
    ++counters_.misses;
    return {};
  }
  ++counters_.hits;
  entry& e = found->second;
  if (e.users++ == 0) {
    idle_.erase(idle_.iterator_to(e));
    idle_bytes_ -= e.bytes;
  }
  return registration(e);
}

registration registration_cache::add(const registration_name& name, std::uint64_t bytes,
                                     core::inner_mr made) {
  const std::lock_guard lock(mutex_);
  const auto [at, added] = all_.try_emplace(name);
  assert(added);
  ++counters_.made;
  entry& e = at->second;
  e.home = this;
  e.name = name;
  e.bytes = bytes;
  e.users = 1;
  e.mr = std::move(made);
  return registration(e);
}

void registration_cache::give_back(entry& e) noexcept {
  const std::lock_guard lock(mutex_);
  if (--e.users != 0) return;
  idle_.push_back(e);
  idle_bytes_ += e.bytes;
  // One that would drive all others out is not kept, nor is any where nothing is.
  if (limits_.count == 0 || e.bytes > limits_.bytes) return end(e);
  while (over_limits()) end_oldest();
}

bool registration_cache::over_limits() const noexcept {
  return idle_.size() > limits_.count || idle_bytes_ > limits_.bytes;
}

void registration_cache::end(entry& idle) noexcept {
  assert(idle.users == 0);
  idle_.erase(idle_.iterator_to(idle));
  idle_bytes_ -= idle.bytes;
  all_.erase(all_.find(idle.name));
}

void registration_cache::end_oldest() noexcept {
  end(idle_.front());
  ++counters_.evictions;
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

cache_counters registration_cache::counters() const noexcept {
  const std::lock_guard lock(mutex_);
  cache_counters now = counters_;
  now.idle = idle_.size();
  now.idle_bytes = idle_bytes_;
  return now;
}

}  // namespace gaudi::reg
