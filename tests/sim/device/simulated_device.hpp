// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "proto/operation/memory.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/region.hpp"
#include "sim/core/network.hpp"

namespace gaudi::sim {

struct device_state;

/// A Gaudi2 in one process, by a library of which the provider sees no more than the functions. Its
/// memory is one allocation, which a NIC reaches where it is told of it; a copy takes virtual time,
/// in which bytes lie where they were, and does not follow those before it. What is copied from or
/// to host memory that is not mapped, or to device memory beyond the allocation, is a complaint of
/// the network's.
class simulated_device {
 public:
  simulated_device(network& net, const delay& copies, std::size_t bytes);
  ~simulated_device();
  simulated_device(const simulated_device&) = delete;
  simulated_device& operator=(const simulated_device&) = delete;

  /// The next so many bytes that nobody has taken; empty: there are not as many.
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes) noexcept;
  /// Bytes that were taken, as the application would register them.
  [[nodiscard]] std::uint64_t address_of(const std::byte* taken) const noexcept;
  [[nodiscard]] proto::local_memory memory_of(std::span<std::byte> taken) const noexcept;
  /// A region of its memory is one of this device's.
  [[nodiscard]] device::device& gaudi() const noexcept { return *gaudi_; }
  [[nodiscard]] const std::shared_ptr<device::device>& shared() const noexcept { return gaudi_; }
  /// The NIC of a domain reaches all that was and is taken; `to` outlives this. False: it does not.
  [[nodiscard]] bool make_known(reg::dmabuf_registrar& to) { return make_known(all_, to); }
  /// The same for a region of this device's memory, for what peers may do there.
  [[nodiscard]] bool make_known(reg::region& r, reg::dmabuf_registrar& to) const;
  /// The device fails and is reset: what is under way ends there, half done, and nothing more is
  /// taken. The provider is told at once, or has to find out.
  void reset(bool is_told);

  /// The bytes that were taken stay as long as this.
  [[nodiscard]] const std::shared_ptr<std::vector<std::byte>>& bytes() const noexcept;

 private:
  std::shared_ptr<device_state> state_;
  std::shared_ptr<device::device> gaudi_;
  reg::region all_;
  std::size_t taken_ = 0;
};

}  // namespace gaudi::sim
