// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "context.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <optional>
#include <string>

#include "cs_table.hpp"
#include "fault.hpp"
#include "notifier.hpp"
#include "settings.hpp"

namespace hlsim {
namespace {

uint64_t generation_of(device_state& state) {
  return std::atomic_ref(state.generation).load(std::memory_order_acquire);
}

/// The contexts that this process has met, by the device and inode of their files.
class registry {
 public:
  using key = std::pair<dev_t, ino_t>;

  static registry& instance() {
    static registry* const r = make();  // lives as long as the worker threads may
    return *r;
  }

  /// Whoever closes the descriptor in the middle of a call may see its number given to another
  /// file: what was read of that one must not stand for the first.
  context_ref find(int fd) {
    for (;;) {
      const std::optional<key> before = file_of(fd);
      if (!before) return nullptr;
      const std::lock_guard lock(mutex_);
      const auto found = contexts_.find(*before);
      if (found != contexts_.end() && is_current(*found->second)) return found->second;
      context_ref made = make_context(fd);
      const int failure = errno;
      const std::optional<key> after = file_of(fd);
      if (!after) return nullptr;
      if (*after != *before) continue;
      errno = failure;
      if (made) contexts_[*before] = made;
      return made;
    }
  }

  void forget(const context_ref& c) {
    const std::lock_guard lock(mutex_);
    std::erase_if(contexts_, [&](const auto& entry) { return entry.second == c; });
  }

  void leave(const context_ref& c) {
    forget(c);
    const std::lock_guard lock(mutex_);
    left_behind_.push_back({{key{}, c}});
  }

 private:
  /// None: no open descriptor, with EBADF in errno.
  static std::optional<key> file_of(int fd) {
    struct stat s {};
    if (::fstat(fd, &s) != 0) return std::nullopt;
    return key{s.st_dev, s.st_ino};
  }

  static registry* make() {
    ::pthread_atfork([] { instance().mutex_.lock(), fault_set::instance().before_fork(); },
                     [] { instance().mutex_.unlock(), fault_set::instance().after_fork(); },
                     [] { instance().after_fork_in_child(); });
    return new registry;
  }

  /// The worker threads did not come along, so the contexts can only be left behind: destroying
  /// them would join those threads. The child meets its contexts anew.
  void after_fork_in_child() {
    left_behind_.push_back(std::exchange(contexts_, {}));
    fault_set::instance().after_fork();
    mutex_.unlock();
  }

  static bool is_current(const context& c) { return c.is_control() || !c.has_followed(); }

  static context_ref make_context(int fd) {
    const auto id = std::make_unique<device_state>();
    if (!read_identity(fd, *id)) {
      errno = ENOTTY;
      return nullptr;
    }
    // A file description of our own: a mapping of the user's would keep its lock after close(2).
    const scoped_fd own(::open(id->name, O_RDWR | O_CLOEXEC));
    if (!own) return nullptr;
    state_mapping state(own.get());
    if (!state) return nullptr;
    hbm_store hbm = hbm_store::attach(*state);
    if (id->is_control == 0 && !hbm) return nullptr;
    state_mapping control = id->is_control != 0 ? state_mapping(fd) : state_mapping();
    if (id->is_control != 0 && !control) return nullptr;
    return std::make_shared<context>(std::move(state), std::move(control), std::move(hbm));
  }

  std::mutex mutex_;
  std::map<key, context_ref> contexts_;
  std::vector<std::map<key, context_ref>> left_behind_;
};

}  // namespace

context::context(state_mapping state, state_mapping control, hbm_store hbm)
    : state_(std::move(state)),
      control_(std::move(control)),
      generation_(generation_of(*state_)),
      hbm_(std::move(hbm)) {}

context::~context() = default;

bool context::has_followed() const noexcept {
  return generation_of(*state_) != generation_;
}

int context::status(uint64_t fault_age_ns) const {
  fault_set& faults = fault_set::instance();
  faults.refresh(fault_age_ns);
  const uint32_t index = state_->index;
  if (faults.strikes(fault::removal, index)) return -ENODEV;
  if (faults.strikes(fault::malfunction, index)) return HL_DEVICE_STATUS_MALFUNCTION;
  if (faults.strikes(fault::in_reset, index)) return HL_DEVICE_STATUS_IN_RESET;
  const uint64_t limit_ns = faults.number(fault::reset_after_ms, index) * 1'000'000;
  const state_lock lock(*state_);
  if (limit_ns != 0 && state_->context_active && now_ns() - state_->opened_ns >= limit_ns)
    begin_reset(*state_, HL_NOTIFIER_EVENT_GENERAL_HW_ERR);
  const bool ends_later = state_->recovering && !state_->context_active &&
                          now_ns() - state_->closed_ns < current_settings().reset_ns;
  return state_->in_reset || ends_later ? HL_DEVICE_STATUS_IN_RESET : HL_DEVICE_STATUS_OPERATIONAL;
}

bool context::works_surely(uint64_t fault_age_ns) const {
  fault_set& faults = fault_set::instance();
  faults.refresh(fault_age_ns);
  return faults.empty() && !is_in_reset(*state_);
}

int context::abort_if_down() const {
  if (works_surely(frequent_fault_age_ns)) return 0;
  const int now = status(frequent_fault_age_ns);
  if (now != HL_DEVICE_STATUS_OPERATIONAL) abort_all();
  return now < 0 ? now : 0;
}

/// A reset may be the doing of another process, or of the fault file.
int context::wait(uint64_t seq, uint64_t timeout_us, uint32_t& status) const {
  constexpr uint64_t look_every_us = 10'000;
  for (uint64_t left = timeout_us;;) {
    if (const int gone = abort_if_down(); gone != 0) return gone;
    const uint64_t now = std::min(left, look_every_us);
    const int rc = wait_cs(*state_, seq, now, status);
    left -= now;
    if (rc == 0 && status == HL_WAIT_CS_STATUS_BUSY && left != 0) continue;
    // Whoever saw the removal first has aborted everything; that is not what the driver says then.
    const int gone = rc == -EIO ? abort_if_down() : 0;
    return gone != 0 ? gone : rc;
  }
}

void context::abort_all() const {
  if (const std::shared_ptr<engine> e = current_engine()) e->abort_waiting();
}

int context::create_notifier() {
  const std::lock_guard lock(notifier_mutex_);
  if (notifier_) return -EINVAL;
  auto [fd, made] = notifier::create(*this);
  notifier_ = std::move(made);
  return fd;
}

int context::release_notifier() {
  const std::lock_guard lock(notifier_mutex_);
  if (!notifier_) return -EINVAL;
  notifier_.reset();
  return 0;
}

bool context::has_notifier() const {
  const std::lock_guard lock(notifier_mutex_);
  return notifier_ != nullptr;
}

int context::health(uint64_t fault_age_ns) const {
  if (works_surely(fault_age_ns)) return 0;
  const int now = status(fault_age_ns);
  if (now < 0) return now;
  return now == HL_DEVICE_STATUS_OPERATIONAL ? 0 : -EBUSY;
}

uint64_t context::submit(std::span<const command_buffer> buffers) {
  const std::lock_guard lock(submit_mutex_);
  const auto healthy = [this] { return health(frequent_fault_age_ns) == 0; };
  const uint64_t seq = begin_cs(*state_, device().max_in_flight, healthy);
  if (seq == 0) return 0;
  std::shared_ptr<engine> e = current_engine();
  if (!e) {
    const auto struck_by = [this](fault which) {
      return fault_set::instance().strikes(which, state_->index);
    };
    e = std::make_shared<engine>(*state_, device(), hbm_, healthy, struck_by);
    const std::lock_guard publish(engine_mutex_);
    engine_ = e;
  }
  e->submit(seq, buffers);
  return seq;
}

std::shared_ptr<engine> context::current_engine() const {
  const std::lock_guard lock(engine_mutex_);
  return engine_;
}

void context::lend_cpu(uint64_t seq, bool will_sleep) const {
  const std::shared_ptr<engine> e = current_engine();
  if (!e) return;
  e->lend_cpu(seq);
  if (will_sleep) e->expect_no_polls();
}

void context::stop_engine() {
  const std::lock_guard lock(submit_mutex_);
  std::shared_ptr<engine> last;
  const std::lock_guard publish(engine_mutex_);
  last.swap(engine_);
}

context_ref find_context(int fd) {
  return registry::instance().find(fd);
}

void forget_context(const context_ref& c) {
  registry::instance().forget(c);
}

void leave_context(const context_ref& c) {
  registry::instance().leave(c);
}

}  // namespace hlsim
