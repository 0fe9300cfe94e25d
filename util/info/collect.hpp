// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "hl/thunk.hpp"
#include "report.hpp"

namespace gaudi::info {

/// Looks at control nodes only: no device is opened for computing. Real devices' places come from
/// `sysfs`, the processes that use a device from `proc`; the stand-in's are on no bus.
std::vector<device_fact> collect_devices(const hl::thunk& thunk, const std::filesystem::path& sysfs,
                                         const std::filesystem::path& proc);

/// The RDMA devices below `sysfs`, in the order of their names.
std::vector<nic_fact> collect_nics(const std::filesystem::path& sysfs);
/// Names of Gaudis' own network ports among them, which are not in that list.
std::vector<std::string> collect_gaudi_ports(const std::filesystem::path& sysfs);

/// Of each NIC that the provider would offer; nothing where one connection to a peer is enough.
std::vector<rails_fact> collect_rails();

/// `thunk` may be null.
software_fact collect_software(const hl::thunk* thunk, const std::filesystem::path& sysfs);

std::vector<parameter_fact> collect_parameters();
/// Takes FI_GAUDI_DEVICE for invalid where it names a device that is not there.
void check_named_devices(const hl::thunk& thunk, std::vector<parameter_fact>& parameters);

/// Registers memory of each device with each NIC that libfabric offers, and measures the device's
/// copies, as the provider would.
/// Opens the devices that are free; a Gaudi2 is in reset for some seconds afterwards.
void probe(const std::shared_ptr<const hl::thunk>& thunk, report& r);

}  // namespace gaudi::info
