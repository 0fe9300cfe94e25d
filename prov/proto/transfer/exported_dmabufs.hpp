// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "device/device.hpp"
#include "device/observers.hpp"

namespace gaudi::proto {

/// The allocations whose dma-bufs peers got from us: they want to know when one is freed, as their
/// NIC keeps it mapped until then, and with it the device open: so one of a device that is lost
/// counts as freed. The caller holds the domain lock; frees and losses come from any thread.
class exported_dmabufs final : private device::free_observer {
 public:
  struct export_record {
    std::uint64_t allocation;  ///< device::location::generation
    std::uint32_t connection;  ///< that it went by
    bool freed = false;
    const device::device* owner = nullptr;
  };

  exported_dmabufs() = default;
  ~exported_dmabufs() override;
  exported_dmabufs(const exported_dmabufs&) = delete;
  exported_dmabufs& operator=(const exported_dmabufs&) = delete;

  /// Notes that an allocation of `on`, which is not being freed, went by a connection. Throws
  /// std::bad_alloc.
  void add(device::device& on, std::uint64_t allocation, std::uint32_t connection);
  [[nodiscard]] bool has(std::uint64_t allocation, std::uint32_t connection) const;
  void forget_connection(std::uint32_t connection) noexcept;

  [[nodiscard]] bool any_freed() const noexcept {
    return any_freed_.load(std::memory_order_relaxed);
  }
  /// Those that have been freed since; they are not known here any more.
  std::vector<export_record> take_freed();

 private:
  /// A device of which something was given away.
  struct watched_device final : device::loss_observer {
    watched_device(exported_dmabufs& records, device::device& on)
        : all(records), owner(on.shared_from_this()) {}
    void device_lost() noexcept override { all.end_all_of(*owner); }

    exported_dmabufs& all;
    const std::shared_ptr<device::device> owner;
  };

  void on_free(std::uint64_t allocation_id) noexcept override;
  void end_all_of(const device::device& lost) noexcept;
  void watch(device::device& on);

  std::list<watched_device> watched_;
  mutable base::mutex mutex_;
  std::vector<export_record> records_ GAUDI_GUARDED_BY(mutex_);
  std::atomic<bool> any_freed_{false};
};

}  // namespace gaudi::proto
