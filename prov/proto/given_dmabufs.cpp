// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/given_dmabufs.hpp"

#include <algorithm>
#include <iterator>

namespace gaudi::proto {

given_dmabufs::~given_dmabufs() {
  for (watched_device& w : watched_) {
    w.owner->unwatch(static_cast<device::loss_watcher&>(w));
    w.owner->unwatch(static_cast<device::free_watcher&>(*this));
  }
}

void given_dmabufs::add(device::device& on, std::uint64_t allocation, std::uint32_t connection) {
  const auto known = [&](const watched_device& w) { return w.owner.get() == &on; };
  if (std::none_of(watched_.begin(), watched_.end(), known)) watch(on);
  {
    const base::scoped_lock hold(mutex_);
    gifts_.push_back({allocation, connection, false, &on});
  }
  // A loss that came meanwhile has not seen it.
  if (on.lost() != 0) end_all_of(on);
}

void given_dmabufs::watch(device::device& on) {
  watched_device& added = watched_.emplace_back(*this, on);
  auto& losses = static_cast<device::loss_watcher&>(added);
  try {
    on.watch(losses);
    on.watch(static_cast<device::free_watcher&>(*this));
  } catch (...) {
    on.unwatch(losses);
    watched_.pop_back();
    throw;
  }
}

bool given_dmabufs::has(std::uint64_t allocation, std::uint32_t connection) const {
  const base::scoped_lock hold(mutex_);
  return std::any_of(gifts_.begin(), gifts_.end(), [&](const gift& g) {
    return g.allocation == allocation && g.connection == connection && !g.freed;
  });
}

void given_dmabufs::forget_connection(std::uint32_t connection) noexcept {
  const base::scoped_lock hold(mutex_);
  std::erase_if(gifts_, [&](const gift& g) { return g.connection == connection; });
}

std::vector<given_dmabufs::gift> given_dmabufs::take_freed() {
  const base::scoped_lock hold(mutex_);
  any_freed_.store(false, std::memory_order_relaxed);
  const auto freed =
      std::stable_partition(gifts_.begin(), gifts_.end(), [](const gift& g) { return !g.freed; });
  std::vector<gift> taken(freed, gifts_.end());
  gifts_.erase(freed, gifts_.end());
  return taken;
}

void given_dmabufs::end_all_of(const device::device& lost) noexcept {
  const base::scoped_lock hold(mutex_);
  for (gift& g : gifts_) {
    if (g.owner != &lost) continue;
    g.freed = true;
    any_freed_.store(true, std::memory_order_relaxed);
  }
}

void given_dmabufs::leaving(std::uint64_t generation) noexcept {
  const base::scoped_lock hold(mutex_);
  for (gift& g : gifts_) {
    if (g.allocation != generation) continue;
    g.freed = true;
    any_freed_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace gaudi::proto
