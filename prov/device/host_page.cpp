// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/host_page.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace gaudi::device {

bool has_host_page(std::uint64_t address) noexcept {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  void* const first = reinterpret_cast<void*>(address / page * page);
  unsigned char resident = 0;
  return mincore(first, 1, &resident) == 0 || errno != ENOMEM;  // ENOMEM: nothing is mapped
}

}  // namespace gaudi::device
