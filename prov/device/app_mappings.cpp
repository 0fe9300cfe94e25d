// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/app_mappings.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "device/device.hpp"

namespace gaudi::device {

app_mappings::app_mappings(device& on) : device_(on.weak_from_this()) {
  ::fstat(on.fd(), &own_);
}

std::unique_ptr<app_mappings> app_mappings::follow(device& on) {
  std::unique_ptr<app_mappings> made(new app_mappings(on));
  made->told_ = hl::mapping_subscription::make(*made);
  return made->told_ ? std::move(made) : nullptr;
}

// The device, kept while it is told, if the descriptor is one of it.
std::shared_ptr<device> app_mappings::owner_if_of(int fd) const noexcept {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || facts.st_dev != own_.st_dev || facts.st_ino != own_.st_ino)
    return nullptr;
  return device_.lock();
}

// What the application has adopted itself is known already. The file of a device that is lost is
// its successor's as well, where new mappings are.
void app_mappings::mapped(int fd, std::uint64_t va, std::uint64_t len) noexcept {
  const auto on = owner_if_of(fd);
  if (!on || on->lost() != 0) return;
  const auto rc = on->memory().adopt_range(va, len, va, len);
  if (!rc && rc.code() != -EEXIST)
    GAUDI_INFO(CORE, "%s: 0x%llx that the application mapped is not known here: %s\n",
               on->attributes().bus_id.c_str(), static_cast<unsigned long long>(va),
               fi_strerror(-rc.code()));
}

void app_mappings::unmapping(int fd, std::uint64_t va) noexcept {
  const auto on = owner_if_of(fd);
  if (!on || on->memory().release_range(va).code() != -FI_EBUSY || std::exchange(warned_, true))
    return;
  GAUDI_WARN(
      MR,
      "%s: the application unmaps device memory at 0x%llx that a memory region still covers. "
      "Close regions first (fi_close); the driver keeps exported memory mapped.\n",
      on->attributes().bus_id.c_str(), static_cast<unsigned long long>(va));
}

}  // namespace gaudi::device
