// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace gaudi::device {

/// Only grows. Any thread; says nothing about the order of what is counted.
class tally {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// What the whole process did with a device since it was opened; compare struct
/// fi_gaudi_device_stats. On a cache line of its own, away from what look-ups read.
struct alignas(64) counters {
  tally exports;         // dma-bufs made by the driver
  tally stale_refusals;  // pins refused because the allocation that was found had gone
  // Given to the device's engine.
  tally copies;
  tally host_to_device_bytes;
  tally device_to_host_bytes;
  tally within_device_bytes;
  // Of messages and RMA.
  tally zero_copy_bytes;  // that a NIC read from the device's memory or wrote to it
  tally staged_bytes;     // that went between it and buffers in host memory
};

}  // namespace gaudi::device
