// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/log.hpp"

namespace gaudi::base {
namespace {

fi_provider unregistered{.version = 0,
                         .fi_version = 0,
                         .context = {},
                         .name = "gaudi",
                         .getinfo = nullptr,
                         .fabric = nullptr,
                         .cleanup = nullptr};
fi_provider* current = &unregistered;

}  // namespace

fi_provider& provider() noexcept {
  return *current;
}
void set_provider(fi_provider& p) noexcept {
  current = &p;
}

}  // namespace gaudi::base
