// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/event_watch.hpp"

#include <poll.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "base/signals_blocked.hpp"
#include "device/device.hpp"

namespace gaudi::device {

std::unique_ptr<event_watch> event_watch::start(device& on) noexcept {
  const auto notifier = on.thunk().open_notifier(on.fd());
  if (!notifier) {
    GAUDI_INFO(CORE, "%s does not tell of its resets (%s): they show at the next use\n",
               on.attributes().bus_id.c_str(), fi_strerror(-notifier.code()));
    return nullptr;
  }
  base::scoped_fd told(*notifier);
  base::scoped_fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return nullptr;
  try {
    return std::unique_ptr<event_watch>(new event_watch(on, std::move(told), std::move(stop)));
  } catch (const std::exception& e) {
    GAUDI_INFO(CORE, "no thread to watch %s: %s\n", on.attributes().bus_id.c_str(), e.what());
    return nullptr;
  }
}

event_watch::event_watch(device& on, base::scoped_fd notifier, base::scoped_fd stop)
    : on_(on), notifier_(std::move(notifier)), stop_(std::move(stop)), owner_(::getpid()) {
  const base::signals_blocked while_it_starts;
  thread_ = std::thread([this] { run(); });
}

event_watch::~event_watch() {
  if (::getpid() != owner_) {
    thread_.detach();  // it did not come along to the child
    return;
  }
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void event_watch::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "gaudi-events");
  std::array<pollfd, 2> sources{{{notifier_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  for (;;) {
    if (::poll(sources.data(), sources.size(), -1) < 0) continue;
    if (sources[1].revents != 0) return;
    if (!is_reset()) continue;
    on_.lose(-FI_EIO, "its driver is about to reset it");
    // There is no more to hear. It stays to be joined: the device may outlive the process's main().
    sources[0].fd = -1;
  }
}

/// Whatever cannot be read is not read again for ever.
bool event_watch::is_reset() const noexcept {
  const auto events = on_.thunk().take_events(on_.fd(), notifier_.get());
  return !events || (*events & (hl::event_device_reset | hl::event_device_unavailable)) != 0;
}

}  // namespace gaudi::device
