// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "device/device_spec.hpp"

namespace gaudi::device {

/// The devices that FI_GAUDI_DEVICE lists, in its order.
struct device_list {
  std::vector<device_spec> listed;  ///< never empty but with `all`
  bool all = false;                 ///< every Gaudi of the machine, by index

  /// Devices as device_spec::parse takes them with commas between them, or "all"; "" = the first
  /// free one. -FI_EINVAL after a warning that quotes the text.
  static base::result<device_list> parse(std::string_view text);

  /// The default device; of `all` the one with index 0.
  [[nodiscard]] device_spec first() const {
    return all ? device_spec{device_spec::by_index{0}} : listed.front();
  }
};

}  // namespace gaudi::device
