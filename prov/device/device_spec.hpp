// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"

namespace gaudi::device {

/// Which device to open, as the parameter FI_GAUDI_DEVICE says it of each (see selection).
struct device_spec {
  struct first_free {};
  struct by_index {
    int value;
  };
  struct by_module {
    std::uint32_t value;
  };
  struct by_bus_id {
    std::string value;  ///< "0000:19:00.0", lower case
  };
  std::variant<first_free, by_index, by_module, by_bus_id> choice;

  /// "" = the first free device, "0" = device index, "module:3" = module id, "0000:19:00.0" (or
  /// "19:00.0", domain 0000) = PCI address. -FI_EINVAL after a warning that quotes the text.
  static base::result<device_spec> parse(std::string_view text);

  /// For messages: "device 0", "module 3", ....
  [[nodiscard]] std::string describe() const;
};

}  // namespace gaudi::device
