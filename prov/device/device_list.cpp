// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_list.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/log.hpp"

namespace gaudi::device {

base::result<device_list> device_list::parse(std::string_view text) {
  device_list found;
  if (text == "all") {
    found.all = true;
    return found;
  }
  const bool is_list = text.find(',') != std::string_view::npos;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view one = text.substr(at, comma - at);
    if (is_list && one.empty()) {
      GAUDI_WARN(CORE, "FI_GAUDI_DEVICE=\"%.*s\" names no device beside one of its commas.\n",
                 static_cast<int>(text.size()), text.data());
      return base::error{-FI_EINVAL};
    }
    auto which = device_spec::parse(one);
    if (!which) return which.failure();
    found.listed.push_back(*std::move(which));
    at = comma + 1;
  }
  return found;
}

}  // namespace gaudi::device
