// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>

namespace gaudi::fi {

/// Of an endpoint (fi_cm(3)): it has a name, and connects by itself.
extern fi_ops_cm endpoint_cm_ops;

}  // namespace gaudi::fi
