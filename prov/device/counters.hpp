// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace gaudi::device {

/// Only grows. Any thread; says nothing about the order of what is counted.
class counter {
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
  counter exports;         // dma-bufs made by the driver
  counter stale_refusals;  // pins refused because the allocation that was found had gone
  // Given to the device's engine.
  counter copies;
  counter host_to_device_bytes;
  counter device_to_host_bytes;
  counter device_to_device_bytes;
  // Of messages and RMA.
  counter zero_copy_bytes;  // that a NIC read from the device's memory or wrote to it
  counter staged_bytes;     // that went between it and buffers in host memory
};

}  // namespace gaudi::device
