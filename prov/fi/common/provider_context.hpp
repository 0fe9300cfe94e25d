// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>

#include "base/fork_generation.hpp"
#include "base/params.hpp"
#include "base/result.hpp"
#include "device/device.hpp"
#include "device/device_registry.hpp"

namespace gaudi::fi {

/// What all objects of the provider work with and none of them looks for by itself: the parameters
/// in force and the devices, both of which outlive the objects. A call that libfabric gives no
/// object of ours takes the process's; a fabric keeps what it was opened with and hands it down to
/// its domains, and they to their endpoints and regions. Any thread.
struct provider_context {
  const base::params& params;
  device::device_registry& devices;
  unsigned fork_generation = base::fork_generation();  ///< of the process that it was made in

  /// The process's: the child of a fork has devices of its own. The defaults stand for parameters
  /// that are invalid. For fi_fabric, and for tools.
  static provider_context of_process();
  /// The same for fi_getinfo, which lists nothing then. -FI_EINVAL: a FI_GAUDI_* parameter is
  /// invalid.
  static base::result<provider_context> checked();

  /// The same, but the process's in a child of the fork: what its parent's devices know may be half
  /// changed there, and their locks held for ever.
  [[nodiscard]] provider_context in_this_process() const {
    return fork_generation == base::current_fork_generation() ? *this : of_process();
  }

  /// What the parameters say of devices.
  [[nodiscard]] device::device_registry::settings device_settings() const;
  /// A device by its number, opened at first need. Errors of device_registry::at.
  [[nodiscard]] base::result<std::shared_ptr<device::device>> device_at(unsigned number) const;
  /// How many devices there are to number. Errors of device_registry::count.
  [[nodiscard]] base::result<unsigned> count_devices() const;
};

}  // namespace gaudi::fi
