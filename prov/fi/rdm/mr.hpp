// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

namespace gaudi::fi {

/// fi_mr(3): the mr ops of fid_domain. Host memory is registered with the core as well; device
/// memory (FI_HMEM_SYNAPSEAI) is any range inside one allocation.
extern fi_ops_mr mr_ops;

}  // namespace gaudi::fi
