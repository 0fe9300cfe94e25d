// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

namespace gaudi::fi {

/// fi_provider.getinfo, see fi_getinfo(3). One entry per entry of the core provider (that is, per
/// interface and address family); where a Gaudi is present and FI_HMEM is neither asked nor
/// excluded, the same entries follow once more with FI_HMEM. `hints` may be null. The caller frees
/// *info. -FI_ENODATA: nothing matches; at info level the log says why. -FI_EINVAL: a FI_GAUDI_*
/// parameter is invalid.
int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
            const fi_info* hints, fi_info** info) noexcept;

/// The same for a provider that libfabric shows as a layer over its core, "tcp;ofi_gaudi": the
/// core's name is in each entry.
int getinfo_layered(std::uint32_t version, const char* node, const char* service,
                    std::uint64_t flags, const fi_info* hints, fi_info** info) noexcept;

}  // namespace gaudi::fi
