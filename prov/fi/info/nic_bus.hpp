// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <filesystem>

namespace gaudi::fi {

/// Fills in the NIC's PCI address (fi_nic(3), bus_attr) in those of the core provider's entries
/// that lack it, as those of verbs do: applications look for NICs near a device by it. What is not
/// on PCI (soft-RoCE) stays as it is. `sysfs` is where sysfs is mounted. Any thread.
void add_pci_addresses(fi_info* list, const std::filesystem::path& sysfs = "/sys");

}  // namespace gaudi::fi
