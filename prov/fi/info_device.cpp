// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <atomic>

#include "base/params.hpp"
#include "device/device.hpp"
#include "device/device_registry.hpp"
#include "fi/info.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::fi {
namespace {

enum class presence { unknown, none, some };

/// Unknown where memory is short: that passes.
presence look_for_devices() {
  const auto library = device::device_registry::instance().library(base::params::get().hlthunk);
  const auto count = library ? device::count_devices(**library) : library.failure();
  if (!count) return count.code() == -FI_ENOMEM ? presence::unknown : presence::none;
  return *count != 0 ? presence::some : presence::none;
}

std::atomic<presence> seen{presence::unknown};

bool count_devices() {
  presence known = seen.load();
  if (known == presence::unknown) seen = known = look_for_devices();
  return known == presence::some;
}

std::atomic<bool (*)()> current_probe{count_devices};

}  // namespace

bool device_present() {
  return current_probe.load()();
}

bool has_real_probe() noexcept {
  return current_probe.load() == count_devices;
}

bool device_expected() {
  if (!has_real_probe()) return true;
  // The driver moved from a class of its own to the kernel's accelerator class.
  return !base::params::get().hlthunk.empty() || !topo::class_devices("accel").empty() ||
         !topo::class_devices("habanalabs").empty();
}

void set_device_probe(bool (*probe)()) noexcept {
  current_probe.store(probe ? probe : count_devices);
}

}  // namespace gaudi::fi
