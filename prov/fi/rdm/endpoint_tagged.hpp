// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_tagged.h>

namespace gaudi::fi {

/// Of an endpoint (fi_tagged(3)).
extern fi_ops_tagged endpoint_tagged_ops;
/// The same where receives are posted to a context that it shares.
extern fi_ops_tagged sending_tagged_ops;

}  // namespace gaudi::fi
