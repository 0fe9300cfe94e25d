// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/params.hpp"
#include "fi/common/provider_context.hpp"

namespace gaudi::fi {

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

}  // namespace gaudi::fi
