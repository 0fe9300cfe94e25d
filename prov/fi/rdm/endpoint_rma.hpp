// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_rma.h>

namespace gaudi::fi {

/// Of an endpoint (fi_rma(3)).
extern fi_ops_rma endpoint_rma_ops;

}  // namespace gaudi::fi
