// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fi/common/tables.hpp"

namespace gaudi::fi {

// The operation tables of a connected endpoint, all of them the core's operations.
extern padded<fi_ops_ep> msg_ep_ops;
extern fi_ops_cm msg_ep_cm_ops;
extern fi_ops_msg msg_ep_msg_ops;
extern fi_ops_rma msg_ep_rma_ops;
extern fi_ops_tagged msg_ep_tagged_ops;
extern fi_ops_atomic msg_ep_atomic_ops;

}  // namespace gaudi::fi
