// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/waker.hpp"

#include <sys/eventfd.h>

#include <cerrno>

#include "base/cancellation_deferred.hpp"

namespace gaudi::base {

result<waker> waker::open() noexcept {
  scoped_fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return error{-errno};
  return waker(std::move(event));
}

void waker::arm() noexcept {
  if (signalled_.exchange(false, std::memory_order_acq_rel)) {
    const cancellation_deferred while_it_is_read;
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
  }
  armed_.store(true, std::memory_order_relaxed);
}

void waker::ring() noexcept {
  armed_.store(false, std::memory_order_relaxed);
  signalled_.store(true, std::memory_order_release);
  const cancellation_deferred while_it_is_written;
  ::eventfd_write(event_.get(), 1);
}

}  // namespace gaudi::base
