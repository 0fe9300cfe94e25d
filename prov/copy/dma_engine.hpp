// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "base/mutex.hpp"
#include "base/params.hpp"
#include "base/result.hpp"
#include "copy/copy_part.hpp"
#include "copy/copy_queues.hpp"
#include "copy/copy_table.hpp"
#include "device/device.hpp"

namespace gaudi::copy {

/// What the user wants of an engine. Who makes it says so, for all who share it.
struct engine_config {
  /// How long a copy may take before the device counts as hanging, and so as lost; 0: as long as
  /// its driver lets it. As FI_GAUDI_COPY_TIMEOUT has it by default.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  base::copy_overrides table;  ///< FI_GAUDI_COPY_TABLE

  static engine_config of(const base::params& p) {
    return {.timeout = p.copy_timeout, .table = p.copy_table};
  }
};

class engine_probe;

/// Names a copy in flight. The default one names a copy that is done already.
struct ticket {
  std::uint64_t id = 0;
};

/// The device's copy engine: asynchronous, by whatever queues the device has for us (copy_queues).
/// Thread safe; no allocation per copy. Copies are not ordered among each other. Make one per
/// device (for_device), as the driver's limit of submissions in flight is per device.
class dma_engine final : private device::loss_observer {
 public:
  /// The device's engine, shared with whoever else has it now. -FI_ENOMEM; device::lost();
  /// -FI_EOPNOTSUPP: a generation that does not copy (generation_traits::copies), said once for
  /// each device.
  static base::result<std::shared_ptr<dma_engine>> for_device(
      const std::shared_ptr<device::device>& owner, const engine_config& config = {});

  dma_engine(const dma_engine&) = delete;
  dma_engine& operator=(const dma_engine&) = delete;
  /// Waits for what is in flight, since the hardware still uses its memory.
  ~dma_engine() override;

  /// Starts a copy of `len` bytes (0 is done at once). Both ranges stay as they are until poll or
  /// wait reports the end. -FI_EAGAIN: as many copies as the engine takes are in flight, poll some;
  /// -FI_EINVAL: longer than the queues take at a time (160 GiB); device::lost(), from then on, if
  /// the device was reset, hangs or is gone.
  base::result<ticket> submit(std::uint64_t dst_device_va, std::uint64_t src_device_va,
                              std::uint64_t len, direction dir) {
    return start(dst_device_va, src_device_va, len, dir, reserved_slots);
  }
  /// The same for several parts (1 to max_parts(), of which none is empty), which end together: one
  /// call of the driver for all of them, and one for each look.
  base::result<ticket> submit(std::span<const copy_part> parts, direction dir) {
    return start(parts, dir, reserved_slots);
  }
  [[nodiscard]] std::size_t max_parts() const noexcept { return queues_->max_parts(); }

  /// The same for a caller that waits for the end at once: there may be room for it when there is
  /// none for others.
  base::result<ticket> submit_urgently(std::span<const copy_part> parts, direction dir) {
    return start(parts, dir, 0);
  }

  /// 0: done; -FI_EAGAIN: not yet, the ticket stays valid; else it failed: -FI_EIO aborted or timed
  /// out, -FI_ENODEV device removed. -FI_EINVAL: not a ticket in flight. One ioctl, and none once
  /// the device is lost: then every pending ticket fails. One thread at a time for one ticket.
  int poll(ticket which) noexcept { return wait_us(which, 0); }

  /// As poll, but waits up to `timeout_ms` (-1: for ever) and then says -FI_ETIMEDOUT, the ticket
  /// staying valid.
  int wait(ticket which, int timeout_ms) noexcept;

  /// How long copies are best made. The first call measures the device (calibrated(), some 20 ms),
  /// and others wait for it: ask where a copy is long enough to be worth it. What engine_probe
  /// cannot measure has the defaults.
  [[nodiscard]] const copy_table& table() noexcept;

  [[nodiscard]] const std::shared_ptr<device::device>& owner() const noexcept { return owner_; }

 private:
  friend class copier;
  friend class engine_probe;
  using clock = std::chrono::steady_clock;
  // Kept for those who wait inside one call: they must get on even when everything else in flight
  // belongs to a thread that polls only after that call.
  static constexpr unsigned reserved_slots = 8;
  static constexpr unsigned max_slots = 64;

  /// One copy in flight. Belongs to whoever has the ticket; free ones are chained.
  struct slot {
    clock::time_point began{};
    std::atomic<std::uint64_t> turn{1};  // even: in flight; counts up at each take and give
    unsigned next_free = 0;
  };
  struct passkey {};

 public:
  /// For for_device, the only maker.
  dma_engine(passkey, std::shared_ptr<device::device> owner, std::unique_ptr<copy_queues> queues,
             const engine_config& config);

 private:
  static base::result<std::shared_ptr<dma_engine>> make(
      const std::shared_ptr<device::device>& owner, const engine_config& config);

  /// submit, leaving at least `leave` slots to others.
  base::result<ticket> start(std::uint64_t dst, std::uint64_t src, std::uint64_t len, direction dir,
                             unsigned leave) {
    if (len == 0) return ticket{};
    const copy_part all{dst, src, len};
    return start({&all, 1}, dir, leave);
  }
  base::result<ticket> start(std::span<const copy_part> parts, direction dir, unsigned leave);
  /// The same for a copy that is not counted.
  base::result<ticket> launch(std::span<const copy_part> parts, direction dir, unsigned leave);
  void measure();
  void tell_table() const;
  int wait_us(ticket which, std::uint64_t timeout_us) noexcept;
  void count(std::uint64_t len, direction dir) noexcept;
  /// slot_count_ if no slot may be taken.
  unsigned take_slot(unsigned leave) noexcept;
  void give_slot(unsigned index) noexcept;
  void device_lost() noexcept override { queues_->abandon(); }
  /// The driver refused or failed a submission: what that means for the device.
  int failed(int code) noexcept;
  int end_by(int code) noexcept;
  [[nodiscard]] bool hangs(const slot& pending) const noexcept;

  const std::shared_ptr<device::device> owner_;
  const std::unique_ptr<copy_queues> queues_;
  const unsigned slot_count_;
  const engine_config config_;
  base::mutex mutex_;  // guards the chain of free slots
  unsigned first_free_ GAUDI_GUARDED_BY(mutex_) = 0;
  unsigned free_count_ GAUDI_GUARDED_BY(mutex_);
  std::array<slot, max_slots> slots_;
  std::once_flag measured_;
  copy_table table_;
  std::unique_ptr<engine_probe> stuck_;  // whose copies may still be under way
};

}  // namespace gaudi::copy
