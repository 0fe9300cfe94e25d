// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_loss_epoch.hpp"

#include <sys/eventfd.h>

#include <vector>

#include "base/mutex.hpp"
#include "base/per_process.hpp"

namespace gaudi::device {
namespace {

struct subscribers {
  base::mutex mutex;
  std::vector<device_loss_epoch::loss_eventfd*> loss_eventfds GAUDI_GUARDED_BY(mutex);
};

subscribers& all() {
  return base::per_process<subscribers>::get();
}

}  // namespace

void device_loss_epoch::tell() noexcept {
  count_.fetch_add(1, std::memory_order_release);
  const base::scoped_lock lock(all().mutex);
  for (loss_eventfd* b : all().loss_eventfds) b->signal();
}

device_loss_epoch::loss_eventfd::loss_eventfd() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const base::scoped_lock lock(all().mutex);
  all().loss_eventfds.push_back(this);
}

device_loss_epoch::loss_eventfd::~loss_eventfd() {
  const base::scoped_lock lock(all().mutex);
  std::erase(all().loss_eventfds, this);
}

void device_loss_epoch::loss_eventfd::signal() noexcept {
  signalled_.store(true, std::memory_order_release);
  if (event_) ::eventfd_write(event_.get(), 1);
}

void device_loss_epoch::loss_eventfd::clear() noexcept {
  if (!signalled_.exchange(false, std::memory_order_acq_rel)) return;
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

}  // namespace gaudi::device
