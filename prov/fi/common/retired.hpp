// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What applications of libfabric 1.x pass, and the headers of 2.x warn of or no longer have. The
// values are those of rdma/fabric.h of 1.17; 2.1 has the same ones for what it kept.
#pragma once

#include <cstdint>

namespace gaudi::fi::retired {

/// Registration modes from before 1.5: FI_MR_UNSPEC, FI_MR_BASIC, FI_MR_SCALABLE.
inline constexpr int mr_unspec = 0;
inline constexpr int mr_basic = 1 << 0;
inline constexpr int mr_scalable = 1 << 1;

/// FI_ORDER_NONE: completions come in any order.
inline constexpr std::uint64_t order_none = 0;

/// FI_PROV_SPECIFIC: marks constants that a provider chose for itself.
inline constexpr std::uint32_t provider_specific = 1U << 31;

}  // namespace gaudi::fi::retired
