// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <utility>

#include "device_files.hpp"
#include "engine.hpp"
#include "hbm.hpp"
#include "model.hpp"

namespace hlsim {

class notifier;

/// What this process knows of the device behind an fd. Thread-safe.
class context {
 public:
  /// What comes often need not look at the fault file more often than that.
  static constexpr uint64_t frequent_fault_age_ns = 1'000'000;

  /// `state` is mapped from a file description of its own. A control node has no HBM store, but its
  /// own file in `control`, which is empty for a compute node.
  context(state_mapping state, state_mapping control, hbm_store hbm);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  device_state& state() const noexcept { return *state_; }
  const model& device() const noexcept { return model_of(state_->model_kind); }
  const hbm_store& hbm() const noexcept { return hbm_; }
  [[nodiscard]] bool is_control() const noexcept { return bool{control_}; }
  /// Whether another context of the device has begun since.
  [[nodiscard]] bool has_followed() const noexcept;

  /// 0, -ENODEV (removed) or -EBUSY (in reset, malfunction). A change of the fault file is seen
  /// after `fault_age_ns` at the latest.
  [[nodiscard]] int health(uint64_t fault_age_ns = 0) const;
  /// enum hl_device_status, or -ENODEV.
  [[nodiscard]] int status(uint64_t fault_age_ns = 0) const;

  /// Gives `buffers` to the queues. The sequence number, 0 when the device failed meanwhile.
  uint64_t submit(std::span<const command_buffer> buffers);
  void stop_engine();
  /// wait_cs, which ends when the device fails: also -ENODEV.
  int wait(uint64_t seq, uint64_t timeout_us, uint32_t& status) const;

  /// An eventfd that becomes readable with every event of the device. -EINVAL: there is one, as the
  /// driver allows but one for each open file. The fd, which is the caller's, or -errno.
  int create_notifier();
  /// -EINVAL: there is none.
  int release_notifier();
  [[nodiscard]] bool has_notifier() const;
  /// See engine::lend_cpu and engine::expect_no_polls.
  void lend_cpu(uint64_t seq, bool will_sleep) const;
  /// Ends what this process has in flight if the device does not work any more. -ENODEV: it is
  /// gone. Cheap where there is no fault.
  int abort_if_down() const;
  /// The same for a device that does not.
  void abort_all() const;

 private:
  /// Whether nothing can be wrong with the device. No lock.
  [[nodiscard]] bool works_surely(uint64_t fault_age_ns) const;
  [[nodiscard]] std::shared_ptr<engine> current_engine() const;

  const state_mapping state_;
  /// Whoever knows a context by its file's inode must not see the kernel give that to another file,
  /// as it would once the folder has been removed. The compute node is kept by `state_`.
  const state_mapping control_;
  const uint64_t generation_;
  const hbm_store hbm_;
  std::mutex submit_mutex_;          ///< a queue sees submissions in the order of their numbers
  mutable std::mutex engine_mutex_;  ///< of the pointer alone: a submission may block for long
  std::shared_ptr<engine> engine_;
  mutable std::mutex notifier_mutex_;
  std::unique_ptr<notifier> notifier_;  ///< ends first: it asks for all that is above
};

using context_ref = std::shared_ptr<context>;

/// The context behind a compute or control fd; empty with errno EBADF or ENOTTY. The fd may have
/// come by fork, SCM_RIGHTS or dup.
context_ref find_context(int fd);

/// Drops what this process knows of a context that has ended.
void forget_context(const context_ref& c);

/// The same, but it is still watched for who keeps an export of it.
void leave_context(const context_ref& c);

/// Opens the compute node and begins a context. The fd, or -errno as section 2.4 tells.
int open_device(uint32_t index);

/// Opens the control node. The fd, or -errno.
int open_control_node(uint32_t index);

/// Whether somebody has the compute node open. A context that nobody holds any more ends here: the
/// driver releases it when its last user dies, which nothing tells the simulation.
bool is_held(device_state& state);

/// Closes either. When it was the last reference to the compute node the context ends here. 0 or
/// -errno.
int close_device(int fd);

}  // namespace hlsim
