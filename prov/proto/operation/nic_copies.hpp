// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "copy/nic_copy_threshold.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/memory.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::proto {

struct buffer;

/// Short payloads that the NIC brings from a buffer to device memory: its way from one memory of
/// ours to the other is shorter than the device's engine, which takes a system call. Up to which
/// length that is so is measured as copies are made. Not thread safe: the caller holds the domain
/// lock.
class nic_copies {
 public:
  /// `loop`: null: nothing goes this way; `flush`: null: what the NIC wrote is not flushed. They
  /// and `engines` outlive the object.
  nic_copies(const copy::engine_config& config, reg::nic_loopback* loop,
             const reg::write_flush* flush, device_copies& engines) noexcept
      : loop_(loop), flush_(flush), engines_(engines), limit_(config.table) {}

  /// Brings all `length` bytes at `at` in the buffer to `to`, here and now. False: not this way,
  /// and some of them may have been written.
  bool copy(const buffer& from, std::size_t at, const local_memory& to, std::size_t length);

 private:
  bool bring(const buffer& from, std::size_t at, const local_memory& to, std::size_t length) const;
  void compare(device::device& on, std::size_t length, double nic_ns);

  reg::nic_loopback* const loop_;
  const reg::write_flush* const flush_;
  device_copies& engines_;
  copy::nic_copy_threshold limit_;  // of all devices: their times are taken to be alike
};

}  // namespace gaudi::proto
