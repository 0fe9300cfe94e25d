// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

namespace gaudi::fi {

/// What such a domain begins with: its operations. `context` is the application's.
fid_domain msg_domain_fid(void* context) noexcept;

/// fi_domain(3) for an info of FI_EP_MSG, which is not null. Any thread.
int msg_domain_open(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept;

}  // namespace gaudi::fi
