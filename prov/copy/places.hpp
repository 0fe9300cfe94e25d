// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/device.hpp"
#include "reg/region.hpp"

/// The two ends of a copy between memory of the provider's own and memory of the application's.
namespace gaudi::copy {

/// Host memory of ours that engines can be let at.
class host_memory {
 public:
  /// The address that engines of `which` have for these bytes of it. -FI_ENOMEM: the driver cannot
  /// map more host memory.
  virtual base::result<std::uint64_t> device_address(device::device& which,
                                                     const std::byte* bytes) = 0;

 protected:
  ~host_memory() = default;
};

/// Where the copy's bytes are, or come to, in it.
struct host_place {
  std::byte* bytes;
  host_memory* of;
  void* descriptor;       ///< the core's
  bool is_known_to_core;  ///< else the NIC cannot be let at it
};

/// The application's end: memory of a device of ours, the host's, or such as only the NIC reaches.
struct app_place {
  std::uint64_t address;
  device::device* owner;          ///< null: none of ours
  const reg::region* registered;  ///< null: the core does not know it
  bool is_host;                   ///< a CPU can touch it
};

}  // namespace gaudi::copy
