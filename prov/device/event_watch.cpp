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

namespace {

constexpr int look_every_ms = 50;

}  // namespace

base::scoped_fd event_watch::notifier_of(device& on) noexcept {
  const auto notifier = on.thunk().open_notifier(on.fd());
  if (notifier) return base::scoped_fd(*notifier);
  GAUDI_INFO(CORE, "%s: reset notification unavailable (%s): resets are noticed at the next use\n",
             on.attributes().bus_id.c_str(), fi_strerror(-notifier.code()));
  return base::scoped_fd();
}

std::unique_ptr<event_watch> event_watch::start(device& on) noexcept {
  const bool is_owned = on.attributes().owned;
  base::scoped_fd told = is_owned ? notifier_of(on) : base::scoped_fd();
  if (is_owned && !told) return nullptr;
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
    : device_(on), notifier_(std::move(notifier)), stop_(std::move(stop)), owner_(::getpid()) {
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
  for (int pause = notifier_ ? -1 : look_every_ms;;) {
    const int ready = ::poll(sources.data(), sources.size(), pause);
    if (ready < 0) continue;
    if (sources[1].revents != 0) return;
    const int cause = notifier_ ? what_is_told() : what_is_seen();
    if (cause != 0)
      device_.lose(cause, cause == -FI_ENODEV ? "it was removed" : "its driver resets it");
    if (device_.lost() == 0) continue;
    // There is no more to hear. It stays to be joined: the device may outlive the process's main().
    sources[0].fd = pause = -1;
  }
}

/// Whatever cannot be read is not read again for ever.
int event_watch::what_is_told() const noexcept {
  const auto events = device_.thunk().take_events(device_.fd(), notifier_.get());
  const bool is_reset =
      !events || (*events & (hl::event_device_reset | hl::event_device_unavailable)) != 0;
  return is_reset ? -FI_EIO : 0;
}

/// A descriptor that stands for nothing, while the device rests, is no news.
int event_watch::what_is_seen() const noexcept {
  const auto status = device_.thunk().status(device_.fd());
  if (!status) return status.code() == -FI_ENODEV ? -FI_ENODEV : 0;
  return *status == hl::device_status::operational ? 0 : -FI_EIO;
}

}  // namespace gaudi::device
