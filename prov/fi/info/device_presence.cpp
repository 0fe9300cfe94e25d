// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/device_presence.hpp"

#include <rdma/fi_errno.h>

#include <atomic>

#include "device/device.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::fi {
namespace {

enum class presence { unknown, none, some };

/// Unknown where memory is short: that passes.
presence look_for_devices(const provider_context& context) {
  const auto library = context.devices.library(context.params.hlthunk);
  const auto count = library ? device::count_devices(**library) : library.failure();
  if (!count) return count.code() == -FI_ENOMEM ? presence::unknown : presence::none;
  return *count != 0 ? presence::some : presence::none;
}

std::atomic<presence> seen{presence::unknown};

bool are_devices_here(const provider_context& context) {
  presence known = seen.load();
  if (known == presence::unknown) seen = known = look_for_devices(context);
  return known == presence::some;
}

// A test's; null: the machine is asked.
std::atomic<bool (*)()> probe_of_test{nullptr};

}  // namespace

bool device_present(const provider_context& context) {
  const auto probe = probe_of_test.load();
  return probe ? probe() : are_devices_here(context);
}

bool has_real_probe() noexcept {
  return !probe_of_test.load();
}

bool device_expected(const base::params& params) {
  if (!has_real_probe()) return true;
  // The driver moved from a class of its own to the kernel's accelerator class.
  return !params.hlthunk.empty() || !topo::class_devices("accel").empty() ||
         !topo::class_devices("habanalabs").empty();
}

void set_device_probe(bool (*probe)()) noexcept {
  probe_of_test.store(probe);
}

}  // namespace gaudi::fi
