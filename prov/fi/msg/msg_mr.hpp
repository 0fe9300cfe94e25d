// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

namespace gaudi::fi {

/// fi_mr(3) for a domain of FI_EP_MSG: the core's operations, but for device memory.
extern fi_ops_mr msg_mr_ops;

}  // namespace gaudi::fi
