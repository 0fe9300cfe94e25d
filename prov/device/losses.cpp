// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/losses.hpp"

#include <sys/eventfd.h>

#include <vector>

#include "base/mutex.hpp"
#include "base/per_process.hpp"

namespace gaudi::device {
namespace {

struct hung_up {
  base::mutex mutex;
  std::vector<losses::bell*> bells GAUDI_GUARDED_BY(mutex);
};

hung_up& all() {
  return base::per_process<hung_up>::get();
}

}  // namespace

void losses::tell() noexcept {
  count_.fetch_add(1, std::memory_order_release);
  const base::scoped_lock lock(all().mutex);
  for (bell* b : all().bells) b->ring();
}

losses::bell::bell() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const base::scoped_lock lock(all().mutex);
  all().bells.push_back(this);
}

losses::bell::~bell() {
  const base::scoped_lock lock(all().mutex);
  std::erase(all().bells, this);
}

void losses::bell::ring() noexcept {
  rung_.store(true, std::memory_order_release);
  if (event_) ::eventfd_write(event_.get(), 1);
}

void losses::bell::quiet() noexcept {
  if (!rung_.exchange(false, std::memory_order_acq_rel)) return;
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

}  // namespace gaudi::device
