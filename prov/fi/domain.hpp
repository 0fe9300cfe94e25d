// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

namespace gaudi::fi {

/// fi_domain(3): the domain op of fid_fabric.
int domain_open(fid_fabric* fabric, fi_info* info, fid_domain** out, void* context) noexcept;

}  // namespace gaudi::fi
