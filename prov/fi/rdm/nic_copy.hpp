// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "copy/direction.hpp"
#include "fi/rdm/domain.hpp"

namespace gaudi::fi {

/// The copy of fi_gaudi_ops.copy where the device has no copy engine: the domain's NIC makes it,
/// between what it reaches, and it has ended on return. Takes the domain lock, for parts of it one
/// after the other. -FI_EINVAL: a device range is not inside one allocation, or the host's is none;
/// -FI_EOPNOTSUPP: the NIC does not reach one of them; device::lost(), errors of registering and of
/// reg::nic_loopback::copy, and then some of the bytes may have been written. Throws
/// std::bad_alloc.
int copy_by_nic(domain& d, device::device& on, std::uint64_t dst, std::uint64_t src,
                std::uint64_t len, copy::direction dir);

}  // namespace gaudi::fi
