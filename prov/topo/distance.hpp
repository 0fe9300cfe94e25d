// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "topo/pci_place.hpp"

namespace gaudi::topo {

/// What lies between two PCI functions, nearest first; the classes and names of nvidia-smi topo.
enum class distance {
  same_switch,       // PIX: at most one PCIe switch
  several_switches,  // PXB: switches below one root port
  host_bridge,       // PHB: the CPU's PCIe host bridge
  numa_node,         // NODE: host bridges of one NUMA node
  system,            // SYS: the link between NUMA nodes
  unknown,
};

/// "PIX" ... "SYS", or "?" for unknown.
const char* label_of(distance d) noexcept;
/// The same in a few words.
const char* text_of(distance d) noexcept;

distance between(const pci_place& one, const pci_place& other) noexcept;

/// The order in which a device should prefer `nics`, as indices: nearest first, and among those of
/// one distance deeper common switches first. Of equally near ones the device numbered `turn` takes
/// another than its neighbours do, so that a server's Gaudis share its NICs evenly. NICs of unknown
/// place keep their order behind the others.
std::vector<std::size_t> by_distance(const pci_place& device, std::size_t turn,
                                     const std::vector<pci_place>& nics);

}  // namespace gaudi::topo
