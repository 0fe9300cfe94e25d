// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "call.hpp"
#include "hlsim.hpp"

// Notification of the user, which the driver does before a reset and for lesser events.

using namespace hlsim;

namespace {

int control_refused(const context& c) {
  return c.is_control() ? -ENOTTY : 0;
}

/// The kernel has forgotten the events of an earlier context.
int take_events(int fd, uint64_t& events) {
  return info_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    events = std::exchange(c.state().events, 0);
    return 0;
  });
}

}  // namespace

int hlthunk_notifier_create(int fd) {
  return info_call(fd, [](context& c) {
    const int rc = control_refused(c);
    return rc != 0 ? rc : c.create_notifier();
  });
}

int hlthunk_notifier_release(int fd, int handle) {
  const int rc = info_call(fd, [](context& c) { return c.release_notifier(); });
  if (rc < 0) return rc;
  return ::close(handle) == 0 ? 0 : -errno;
}

/// 0 with a count of 0 when nothing has happened within `timeout_ms`.
int hlthunk_notifier_recv(int fd, int handle, uint64_t* events, uint64_t* count, uint32_t,
                          uint32_t timeout_ms) {
  if (!events || !count) return -EINVAL;
  *count = 0;
  pollfd entry{handle, POLLIN, 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(timeout_ms));
  if (ready <= 0) return ready < 0 ? -errno : 0;
  eventfd_t happened = 0;
  if (::eventfd_read(handle, &happened) != 0) return -1;
  if (const int rc = take_events(fd, *events); rc < 0) return rc;
  *count = happened;
  return 0;
}
