// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "settings.hpp"

namespace hlsim {

/// The PCI address of device `index`, "dddd:bb:dd.f".
inline std::string bus_id_of(uint32_t index) {
  constexpr uint32_t first_bus = 0x19;
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", (first_bus + index) & 0xff);
  return text;
}

/// The device at a PCI address; "bb:dd.f" means domain 0.
inline std::optional<uint32_t> index_of_bus_id(const char* bus_id) {
  constexpr size_t short_form = 7;
  std::string full = bus_id;
  if (full.size() == short_form) full.insert(0, "0000:");
  for (uint32_t i = 0; i < current_settings().devices; ++i)
    if (bus_id_of(i) == full) return i;
  return std::nullopt;
}

}  // namespace hlsim
