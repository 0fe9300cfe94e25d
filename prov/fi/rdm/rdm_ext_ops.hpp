// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_ext_gaudi.h>

namespace gaudi::fi {

/// What fi_open_ops(FI_GAUDI_DOMAIN_OPS) gives for a domain of FI_EP_RDM.
extern fi_gaudi_ops rdm_extension_ops;

}  // namespace gaudi::fi
