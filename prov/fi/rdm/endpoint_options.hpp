// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>

namespace gaudi::fi {

/// fi_getopt and fi_setopt of an endpoint (fi_endpoint(3)). -FI_ENOPROTOOPT: it has no such option.
int endpoint_getopt(fid_t f, int level, int name, void* out, std::size_t* length) noexcept;
int endpoint_setopt(fid_t f, int level, int name, const void* in, std::size_t length) noexcept;

}  // namespace gaudi::fi
