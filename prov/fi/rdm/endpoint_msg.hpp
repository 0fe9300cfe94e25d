// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

namespace gaudi::fi {

/// Of an endpoint (fi_msg(3)).
extern fi_ops_msg endpoint_msg_ops;
/// The same where receives are posted to a context that it shares.
extern fi_ops_msg sending_msg_ops;

}  // namespace gaudi::fi
