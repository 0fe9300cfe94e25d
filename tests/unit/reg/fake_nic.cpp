// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_nic.hpp"

#include <dlfcn.h>

#include <cstdint>

std::atomic<bool> gaudi::test::fake_nic::knows_dmabufs{false};

// What the provider asks, instead of libfabric's own.
extern "C" [[gnu::visibility("default")]] std::uint32_t fi_version() {
  using function = std::uint32_t (*)();
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "fi_version"));
  if (gaudi::test::fake_nic::knows_dmabufs) return FI_VERSION(1, 20);
  return gaudi::test::fake_nic::count == 0 ? real() : FI_VERSION(1, 17);
}
