// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::fi {

/// The address that node and service name (getaddrinfo(3)) in the family of `addr_format`; the
/// first one where there are several. May block on the network: not under a lock. -FI_EINVAL: a
/// name is missing. -FI_ENODATA: it does not resolve.
base::result<proto::net_address> resolve(const char* node, const char* service,
                                         std::uint32_t addr_format);

/// The nodecnt x svccnt addresses of fi_av_insertsym(3), all services of a node before the next
/// node. An address that does not resolve is empty. -FI_EINVAL: service is no number, or a host
/// name has no numeric suffix to count up from.
base::result<std::vector<proto::net_address>> resolve_symmetric(const char* node,
                                                                std::size_t nodecnt,
                                                                const char* service,
                                                                std::size_t svccnt,
                                                                std::uint32_t addr_format);

}  // namespace gaudi::fi
