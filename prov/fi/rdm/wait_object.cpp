// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/wait_object.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <thread>

#include "base/log.hpp"

namespace gaudi::fi {
namespace {

constexpr auto spin_time = std::chrono::microseconds(50);
constexpr auto nap_time = std::chrono::microseconds(20);

}  // namespace

base::result<std::unique_ptr<wait_object>> wait_object::open(domain& d, fi_wait_obj kind) {
  switch (kind) {
    case FI_WAIT_NONE:
    case FI_WAIT_YIELD:
      return std::unique_ptr<wait_object>();
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
      break;
    default:
      GAUDI_INFO(CQ, "wait objects are NONE, UNSPEC, FD and YIELD, not %d\n", kind);
      return base::error{-FI_ENOSYS};
  }
  auto place = d.open_sleeping_place();
  if (!place) return place.failure();
  auto object = std::make_unique<wait_object>(*std::move(place));
  if (kind == FI_WAIT_FD) {
    if (const int ret = object->open_set()) return base::error{ret};
  }
  return object;
}

int wait_object::open_set() noexcept {
  auto set = base::event_set::open();
  if (!set) return set.code();
  for (const int member : {place_.events, place_.waker.fd()}) {
    if (const int ret = set->add(member)) return ret;
  }
  set_.emplace(*std::move(set));
  return 0;
}

int get_wait_object(const wait_object* object, fi_wait_obj kind, int command, void* arg) noexcept {
  if (!arg) return -FI_EINVAL;
  switch (command) {
    case FI_GETWAIT:
      if (!object || kind != FI_WAIT_FD) return -FI_ENODATA;
      *static_cast<int*>(arg) = object->fd();
      return 0;
    case FI_GETWAITOBJ:
      *static_cast<fi_wait_obj*>(arg) = kind;
      return 0;
    default:
      return -FI_ENOSYS;
  }
}

sleeper::sleeper(domain& d, wait_object* object, int timeout) noexcept
    : domain_(d), object_(object), start_(clock::now()), timeout_(timeout) {}

bool sleeper::timed_out() const noexcept {
  return timeout_ >= 0 && clock::now() - start_ >= std::chrono::milliseconds(timeout_);
}

bool sleeper::still_spins() const noexcept {
  return clock::now() - start_ < spin_time;
}

void sleeper::short_pause() {
  std::this_thread::sleep_for(nap_time);
}

void sleeper::sleep() const {
  if (!object_) return short_pause();
  if (timeout_ < 0) return object_->sleep(-1);
  const auto rest = start_ + std::chrono::milliseconds(timeout_) - clock::now();
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(rest).count();
  object_->sleep(static_cast<int>(std::max<std::int64_t>(0, whole)));
}

}  // namespace gaudi::fi
