// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/nic_copies.hpp"

#include <rdma/fi_errno.h>

#include "base/cancellation_deferred.hpp"

namespace gaudi::copy {

int nic_copies::copy(const host_place& here, const app_place& there, std::size_t length,
                     direction dir) {
  const base::cancellation_deferred until_it_is_copied;
  if (!loop_ || !there.registered || !here.is_known_to_core) return -FI_EOPNOTSUPP;
  const bool to_app = dir == direction::host_to_device;
  const auto* const known =
      to_app ? there.registered->core_for(0) : there.registered->core_for_own_reads();
  if (!known) return -FI_EOPNOTSUPP;
  if (!to_app) return read(here.bytes, here.descriptor, length, there.address, known->key());
  auto* const to = reinterpret_cast<std::byte*>(there.address);
  return loop_->copy({to, known->descriptor()}, {here.bytes, here.descriptor}, length).code();
}

int nic_copies::read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                     std::uint64_t key) {
  const base::cancellation_deferred until_it_is_read;
  if (!loop_) return -FI_EOPNOTSUPP;
  return loop_->read(to, descriptor, length, address, key).code();
}

}  // namespace gaudi::copy
