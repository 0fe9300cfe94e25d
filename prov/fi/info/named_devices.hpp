// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <string>

#include "base/result.hpp"
#include "fi/common/provider_context.hpp"

/// What FI_GAUDI_DEVICE names, seen before anything is opened.
namespace gaudi::fi {

/// Whether FI_GAUDI_DEVICE names devices of this machine only; where it has no Gaudi at all, and in
/// a process that uses Synapse, the parameter is of no consequence. -FI_EINVAL: it does not parse;
/// -FI_ENODEV: one is not there; one warning says which and what there is. Any thread.
base::result<void> check_named_devices(const provider_context& context);

/// The devices that a domain can use, the default one first, for people: "gaudi0", "gaudi1,0",
/// "synapse" (the one that Synapse has), or "any" (the first free of several). Opens none.
std::string devices_label(const provider_context& context);

/// Puts devices_label behind the domain name of each entry of `list` with FI_HMEM. With `asked`,
/// the hints' domain name, not null they are called by that instead, as libfabric drops entries
/// whose name is not the one asked for: who finds a NIC without FI_HMEM then gets it with FI_HMEM.
void name_devices(fi_info* list, const char* asked, const provider_context& context);

}  // namespace gaudi::fi
