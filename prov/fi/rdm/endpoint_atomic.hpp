// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include <cstdint>

namespace gaudi::fi {

/// Of an endpoint (fi_atomic(3)).
extern fi_ops_atomic endpoint_atomic_ops;

/// The query_atomic op of fid_domain. -FI_EOPNOTSUPP: there is no such operation.
int query_atomic(fid_domain* d, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept;

}  // namespace gaudi::fi
