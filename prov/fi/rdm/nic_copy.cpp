// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/nic_copy.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "copy/nic_copies.hpp"

namespace gaudi::fi {
namespace {

using copy::direction;

// Others use the domain between two of them.
constexpr std::uint64_t max_part = std::uint64_t{16} << 20;

// What the engine's copies say of it.
int check_device_range(const device::device& on, std::uint64_t address, std::uint64_t len) {
  if (const int gone = on.lost(); gone != 0) return gone;
  return on.find(address, len) ? 0 : -FI_EINVAL;
}

int check_host_range(const device::device& on, std::uint64_t address) {
  return address == 0 || on.find(address, 1) ? -FI_EINVAL : 0;
}

int check(const device::device& on, std::uint64_t address, std::uint64_t len, bool is_host) {
  return is_host ? check_host_range(on, address) : check_device_range(on, address, len);
}

}  // namespace

int copy_by_nic(domain& d, device::device& on, std::uint64_t dst, std::uint64_t src,
                std::uint64_t len, direction dir) {
  if (len == 0) return 0;
  const bool from_host = dir == direction::host_to_device;
  const bool to_host = dir == direction::device_to_host;
  if (const int ret = check(on, src, len, from_host)) return ret;
  if (const int ret = check(on, dst, len, to_host)) return ret;
  for (std::uint64_t done = 0; done < len;) {
    const std::uint64_t part = std::min(len - done, max_part);
    const copy::app_place to{dst + done, to_host ? nullptr : &on, nullptr, to_host};
    const copy::app_place from{src + done, from_host ? nullptr : &on, nullptr, from_host};
    const base::scoped_domain_lock lock(d.lock());
    if (const int ret = copy::nic_copies(&d.loop(), &d.dmabufs()).copy(to, from, part)) return ret;
    done += part;
  }
  if (to_host) return 0;
  const base::scoped_domain_lock lock(d.lock());
  return d.flush().flush(on).code();
}

}  // namespace gaudi::fi
