// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/provider_context.hpp"

namespace gaudi::fi {

// The one place of the rooms fi and proto that reaches for what belongs to the process
// (tests/unit/architecture/structure_rules.py).
provider_context provider_context::of_process() {
  return {base::params::get(), device::device_registry::instance()};
}

base::result<provider_context> provider_context::checked() {
  const auto& params = base::params::parsed();
  if (!params) return params.failure();
  return provider_context{*params, device::device_registry::instance()};
}

device::device_registry::settings provider_context::device_settings() const {
  return {params.hlthunk, params.device, params.device_timeout};
}

base::result<std::shared_ptr<device::device>> provider_context::device_at(unsigned number) const {
  if (auto ready = devices.opened(number); ready && ready->lost() == 0) return ready;
  return devices.at(number, device_settings());
}

base::result<unsigned> provider_context::count_devices() const {
  if (const unsigned known = devices.count()) return known;
  return devices.count(device_settings());
}

}  // namespace gaudi::fi
