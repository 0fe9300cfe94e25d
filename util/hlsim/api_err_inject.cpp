// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>
#include <span>

#include "call.hpp"
#include "hlsim.hpp"

// Errors made on purpose, under the names of libhl-thunk's companion library. A control node will
// do as well, so that another process can make them.

using namespace hlsim;

namespace {

/// Whose number the event has in the driver's table; the stand-in has no such table.
constexpr int some_event = 0;

int reset_device(int fd, uint64_t events) {
  const int rc = info_call(fd, [&](context& c) {
    if (const int status = c.status(); status < 0) return status;
    {
      const state_lock lock(c.state());
      if (c.state().context_active) begin_reset(c.state(), events);
    }
    c.abort_all();
    return 0;
  });
  // As the real one does, lest the driver kills its caller; a dup of the descriptor stays open.
  hlthunk_close(fd);
  return rc < 0 ? -ENODEV : 0;
}

}  // namespace

/// Returns when the driver has given the command up, which resets the device. -EIO: it failed in
/// another way meanwhile; -ETIME: it has not for a day.
int hlthunk_err_inject_endless_command(int fd) {
  constexpr uint64_t day_us = 86'400'000'000;
  return compute_call(fd, [](context& c) {
    command_buffer endless{};
    endless.endless = true;
    const uint64_t seq = c.submit(std::span(&endless, 1));
    uint32_t status = 0;
    const int rc = seq != 0 ? c.wait(seq, day_us, status) : -EBUSY;
    if (rc == -ETIMEDOUT) return 0;
    return rc != 0 ? rc : -ETIME;
  });
}

int hlthunk_err_inject_non_fatal_event(int fd, int* event) {
  return info_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    raise_events(c.state(), HL_NOTIFIER_EVENT_USER_ENGINE_ERR);
    if (event) *event = some_event;
    return 0;
  });
}

int hlthunk_err_inject_fatal_event(int fd, int* event) {
  if (event) *event = some_event;
  return reset_device(fd, HL_NOTIFIER_EVENT_GENERAL_HW_ERR);
}

int hlthunk_err_inject_loss_of_heartbeat(int fd) {
  return reset_device(fd, HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE);
}

/// The stand-in has no temperature.
int hlthunk_err_inject_thermal_event(int) {
  return -ENOTSUP;
}
int hlthunk_err_eject_thermal_event(int) {
  return -ENOTSUP;
}
