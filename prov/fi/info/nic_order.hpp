// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/fid.hpp"
#include "fi/common/provider_context.hpp"
#include "topo/pci_place.hpp"

namespace gaudi::fi {

/// In which order an application should see NICs.
struct nic_order {
  std::vector<std::string> wanted;  ///< the user's order (FI_GAUDI_NIC); empty: by distance
  topo::pci_place device;           ///< of the Gaudi in use; unknown: the core's order stays
  std::size_t turn = 0;             ///< its number in the machine, see topo::by_distance
  std::filesystem::path sysfs = "/sys";
};

/// The order for the default Gaudi: the open one, else the first that FI_GAUDI_DEVICE names, else
/// the only one of the machine. Opens no device. Unknown for the stand-in's, which are on no bus.
nic_order order_in_use(const provider_context& context,
                       const std::filesystem::path& sysfs = "/sys");

/// The NICs of a list of the core's, each once, in its order.
std::vector<std::string> nics_of(const fi_info* list);

/// Sorts the core's entries by their NICs; entries of one NIC keep their order.
core::unique_info in_order(core::unique_info list, const nic_order& order);

}  // namespace gaudi::fi
