// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/domain_base.hpp"

#include "base/params.hpp"

namespace gaudi::fi {

device::device_registry::settings device_settings() {
  const base::params& p = base::params::get();
  return {p.hlthunk, p.device, p.device_timeout};
}

base::result<std::shared_ptr<device::device>> domain_base::device_at(unsigned number) {
  auto& all = device::device_registry::instance();
  if (auto ready = all.opened(number); ready && ready->lost() == 0) return ready;
  return all.at(number, device_settings());
}

base::result<unsigned> domain_base::count_devices() {
  auto& all = device::device_registry::instance();
  if (const unsigned known = all.count()) return known;
  return all.count(device_settings());
}

std::shared_ptr<device::device> domain_base::selected_if_open() const noexcept {
  return device::device_registry::instance().opened(selected());
}

}  // namespace gaudi::fi
