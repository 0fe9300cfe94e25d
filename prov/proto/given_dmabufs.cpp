// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/given_dmabufs.hpp"

#include <algorithm>
#include <iterator>

namespace gaudi::proto {

given_dmabufs::~given_dmabufs() {
  for (const auto& on : watched_) on->unwatch(*this);
}

void given_dmabufs::add(device::device& on, std::uint64_t allocation, std::uint32_t connection) {
  const auto known = [&](const auto& d) { return d.get() == &on; };
  if (std::none_of(watched_.begin(), watched_.end(), known)) {
    watched_.push_back(on.shared_from_this());
    on.watch(*this);
  }
  const std::lock_guard hold(mutex_);
  gifts_.push_back({allocation, connection});
}

bool given_dmabufs::has(std::uint64_t allocation, std::uint32_t connection) const {
  const std::lock_guard hold(mutex_);
  return std::any_of(gifts_.begin(), gifts_.end(), [&](const gift& g) {
    return g.allocation == allocation && g.connection == connection && !g.freed;
  });
}

void given_dmabufs::forget_connection(std::uint32_t connection) noexcept {
  const std::lock_guard hold(mutex_);
  std::erase_if(gifts_, [&](const gift& g) { return g.connection == connection; });
}

std::vector<given_dmabufs::gift> given_dmabufs::take_freed() {
  const std::lock_guard hold(mutex_);
  any_freed_.store(false, std::memory_order_relaxed);
  const auto freed =
      std::stable_partition(gifts_.begin(), gifts_.end(), [](const gift& g) { return !g.freed; });
  std::vector<gift> taken(freed, gifts_.end());
  gifts_.erase(freed, gifts_.end());
  return taken;
}

void given_dmabufs::leaving(std::uint64_t generation) noexcept {
  const std::lock_guard hold(mutex_);
  for (gift& g : gifts_) {
    if (g.allocation != generation) continue;
    g.freed = true;
    any_freed_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace gaudi::proto
