// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

#include "base/params.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"
#include "fi/provider_context.hpp"

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

/// The core provider's info for an object that the application opens with one of our infos: same
/// interface, same addresses. Exactly one entry. -FI_ENODATA: the interface is gone.
base::result<core::unique_info> core_info_for(const fi_info& info, const base::params& params);

/// Whether a Gaudi exists that the library of FI_GAUDI_HLTHUNK can name. Opens no device; asked
/// once per process.
bool device_present(const provider_context& context);

/// Whether anything hints at a Gaudi: the driver's device nodes, or FI_GAUDI_HLTHUNK. Where nothing
/// does, an application that did not ask for device memory gets no warning about a missing library.
bool device_expected(const base::params& params);

/// Whether device_present asks the machine, and not what a test put in its place.
bool has_real_probe() noexcept;

/// Makes `probe` the answer of device_present from now on, for tests; nullptr restores the real
/// one.
void set_device_probe(bool (*probe)()) noexcept;

/// True when objects of this info may use device memory.
inline bool has_hmem(const fi_info& info) noexcept {
  return (info.caps & FI_HMEM) != 0;
}

}  // namespace gaudi::fi
