// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/exported_dmabufs.hpp"

#include <algorithm>
#include <iterator>

namespace gaudi::proto {

exported_dmabufs::~exported_dmabufs() {
  for (watched_device& w : watched_) {
    w.owner->remove_observer(static_cast<device::loss_observer&>(w));
    w.owner->memory().remove_observer(static_cast<device::free_observer&>(*this));
  }
}

void exported_dmabufs::add(device::device& on, std::uint64_t allocation, std::uint32_t connection) {
  const auto known = [&](const watched_device& w) { return w.owner.get() == &on; };
  if (std::none_of(watched_.begin(), watched_.end(), known)) watch(on);
  {
    const base::scoped_lock lock(mutex_);
    records_.push_back({allocation, connection, false, &on});
  }
  // A loss that came meanwhile has not seen it.
  if (on.lost() != 0) end_all_of(on);
}

void exported_dmabufs::watch(device::device& on) {
  watched_device& added = watched_.emplace_back(*this, on);
  auto& as_loss_observer = static_cast<device::loss_observer&>(added);
  try {
    on.add_observer(as_loss_observer);
    on.memory().add_observer(static_cast<device::free_observer&>(*this));
  } catch (...) {
    on.remove_observer(as_loss_observer);
    watched_.pop_back();
    throw;
  }
}

bool exported_dmabufs::has(std::uint64_t allocation, std::uint32_t connection) const {
  const base::scoped_lock lock(mutex_);
  return std::any_of(records_.begin(), records_.end(), [&](const export_record& g) {
    return g.allocation == allocation && g.connection == connection && !g.freed;
  });
}

void exported_dmabufs::forget_connection(std::uint32_t connection) noexcept {
  const base::scoped_lock lock(mutex_);
  std::erase_if(records_, [&](const export_record& g) { return g.connection == connection; });
}

std::vector<exported_dmabufs::export_record> exported_dmabufs::take_freed() {
  const base::scoped_lock lock(mutex_);
  any_freed_.store(false, std::memory_order_relaxed);
  const auto freed = std::stable_partition(records_.begin(), records_.end(),
                                           [](const export_record& g) { return !g.freed; });
  std::vector<export_record> taken(freed, records_.end());
  records_.erase(freed, records_.end());
  return taken;
}

void exported_dmabufs::end_all_of(const device::device& lost) noexcept {
  const base::scoped_lock lock(mutex_);
  for (export_record& g : records_) {
    if (g.owner != &lost) continue;
    g.freed = true;
    any_freed_.store(true, std::memory_order_relaxed);
  }
}

void exported_dmabufs::on_free(std::uint64_t allocation_id) noexcept {
  const base::scoped_lock lock(mutex_);
  for (export_record& g : records_) {
    if (g.allocation != allocation_id) continue;
    g.freed = true;
    any_freed_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace gaudi::proto
