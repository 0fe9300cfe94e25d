// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "context.hpp"
#include "exports.hpp"
#include "fault.hpp"
#include "opener_watch.hpp"
#include "settings.hpp"

// The life of a compute context, from open to the last close: reference, sections 2.4 and 2.5. The
// fd that open gives carries a flock on the device file. Every dup of it, in whichever process,
// shares the lock, and the kernel drops it with the last of them, however that process ended.

namespace hlsim {
namespace {

/// What the device's condition says to an open of the compute node: 0 or -errno.
int refusal(uint32_t index) {
  fault_set& faults = fault_set::instance();
  faults.refresh();
  if (faults.strikes(fault::removal, index)) return -ENODEV;
  if (faults.strikes(fault::in_reset, index)) return -EAGAIN;
  if (faults.strikes(fault::malfunction, index)) return -EPERM;
  return faults.strikes(fault::busy, index) ? -EBUSY : 0;
}

/// A context whose last user died, or closed by close(2), is found ended only when somebody looks.
void end_unheld_context(device_state& state) {
  if (!state.context_active) return;
  state.context_active = 0;
  state.closed_ns = now_ns();
  if (!has_exports(state)) reset_context(state);
}

/// -EAGAIN while a reset, or the one that follows a release, has not ended.
int wait_of_release(device_state& state) {
  end_unheld_context(state);
  const settings& s = current_settings();
  const uint64_t takes = std::max(state.recovering ? s.reset_ns : 0,
                                  model_of(state.model_kind).resets_on_release ? s.release_ns : 0);
  return state.closed_ns == 0 || now_ns() - state.closed_ns >= takes ? 0 : -EAGAIN;
}

/// What an open meets that somebody still holds: in a reset, the driver waits for him to go.
int refusal_of_held(device_state& state) {
  return state.recovering ? -EAGAIN : -EBUSY;
}

int begin_context(int fd, device_state& state, const model& m) {
  const state_lock lock(state);
  if (has_exports(state)) return current_settings().old_kernel ? -EAGAIN : refusal_of_held(state);
  if (const int rc = wait_of_release(state); rc != 0) return rc;
  if (::ftruncate(fd, static_cast<off_t>(state_bytes)) != 0) return -errno;
  reset_context(state);
  choose_hbm(state, m);
  state.recovering = 0;
  state.context_active = 1;
  state.opened_ns = now_ns();
  ++state.open_count;
  return 0;
}

/// 0, or -errno: an open takes as many at a time, and without one of them would take what it looks
/// at for something else.
int want_of_descriptors() {
  std::array<scoped_fd, 4> some;
  for (scoped_fd& one : some) {
    one.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!one) return -errno;
  }
  return 0;
}

/// The context keeps the store open: a memfd lives only as long as somebody does.
int begin_storage(int fd, device_state& state, const model& m) {
  const hbm_store store = hbm_store::create(state, m.sram.end - m.sram.first);
  const context_ref begun = store ? find_context(fd) : nullptr;
  if (!begun) return -errno;
  watch_opener(begun);
  return 0;
}

/// Between contexts the INFO calls tell what the next one will be, by this process's environment.
void show_configured_sizes(uint32_t index) {
  const scoped_fd fd(::open(device_path(index).c_str(), O_RDWR | O_CLOEXEC));
  const state_mapping state(fd.get());
  if (!state) return;
  const state_lock lock(*state);
  end_unheld_context(*state);
  choose_hbm(*state, configured_model());
}

/// Whether the driver still has something of the context: an export.
bool release(const context_ref& c) {
  device_state& state = c->state();
  const state_lock lock(state);
  state.context_active = 0;
  state.closed_ns = now_ns();
  if (has_exports(state)) return true;
  c->hbm().discard(0, state.pages * state.page_size);
  return false;
}

void end_context(const context_ref& c) {
  c->stop_engine();
  const bool is_kept = release(c);
  is_kept&& current_settings().kill_ns != 0 ? leave_context(c) : forget_context(c);
}

}  // namespace

int open_device(uint32_t index) {
  const folder_lock serialised;
  if (serialised.failure() != 0) return serialised.failure();
  if (const int rc = want_of_descriptors(); rc != 0) return rc;
  if (const int rc = refusal(index); rc != 0) return rc;
  if (const int rc = ensure_device_files(index); rc != 0) return rc;
  scoped_fd fd(::open(device_path(index).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return -errno;
  const scoped_fd own(::open(device_path(index).c_str(), O_RDWR | O_CLOEXEC));
  if (!own) return -errno;
  const state_mapping state(own.get());
  if (!state) return -errno;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const state_lock lock(*state);
    return refusal_of_held(*state);
  }
  if (const int rc = begin_context(fd.get(), *state, configured_model()); rc != 0) return rc;
  if (const int rc = begin_storage(fd.get(), *state, configured_model()); rc != 0) return rc;
  return fd.release();
}

int open_control_node(uint32_t index) {
  const folder_lock serialised;
  if (serialised.failure() != 0) return serialised.failure();
  fault_set& faults = fault_set::instance();
  faults.refresh();
  if (faults.strikes(fault::removal, index)) return -ENODEV;
  if (faults.strikes(fault::malfunction, index)) return -EPERM;
  if (const int rc = ensure_device_files(index); rc != 0) return rc;
  if (!is_locked(device_path(index))) show_configured_sizes(index);
  const int fd = ::open(control_path(index).c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

bool is_held(device_state& state) {
  const folder_lock serialised;
  if (is_locked(state.name)) return true;
  const state_lock lock(state);
  end_unheld_context(state);
  return false;
}

int close_device(int fd) {
  const folder_lock serialised;
  const context_ref c = find_context(fd);
  if (::close(fd) != 0) return -errno;
  if (c && !c->is_control() && !is_locked(c->state().name)) end_context(c);
  return 0;
}

}  // namespace hlsim
