// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

namespace gaudi::fi {

/// What a fabric begins with: its operations. `version` and `context` are the application's.
fid_fabric fabric_fid(std::uint32_t version, void* context) noexcept;

/// fi_provider.fabric, see fi_fabric(3). Any thread.
int fabric_open(fi_fabric_attr* attr, fid_fabric** out, void* context) noexcept;

}  // namespace gaudi::fi
