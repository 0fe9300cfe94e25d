// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

namespace gaudi::fi {

/// The endpoint op of fid_domain. -FI_EINVAL: not FI_EP_RDM.
int endpoint_open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept;

}  // namespace gaudi::fi
