// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/distance.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gaudi::topo {
namespace {

/// Bridges and functions that both paths begin with; the host bridge is the first.
std::size_t common_length(const pci_place& one, const pci_place& other) noexcept {
  const auto ends =
      std::mismatch(one.path.begin(), one.path.end(), other.path.begin(), other.path.end());
  return static_cast<std::size_t>(ends.first - one.path.begin());
}

/// A switch is two bridges to the kernel, one up and one for each port down: below what two
/// functions on one switch have in common are the port and the function.
constexpr std::size_t below_one_switch = 2;

/// Nearer is less: the distance, then the length of what the paths do not share.
std::pair<distance, std::size_t> rank(const pci_place& device, const pci_place& nic) noexcept {
  const distance d = between(device, nic);
  const std::size_t common = d <= distance::several_switches ? common_length(device, nic) : 0;
  return {d, device.path.size() - common};
}

}  // namespace

const char* label_of(distance d) noexcept {
  switch (d) {
    case distance::same_switch:
      return "PIX";
    case distance::several_switches:
      return "PXB";
    case distance::host_bridge:
      return "PHB";
    case distance::numa_node:
      return "NODE";
    case distance::system:
      return "SYS";
    case distance::unknown:
      break;
  }
  return "?";
}

const char* text_of(distance d) noexcept {
  switch (d) {
    case distance::same_switch:
      return "at most one PCIe switch";
    case distance::several_switches:
      return "several PCIe switches below one root port";
    case distance::host_bridge:
      return "a PCIe host bridge";
    case distance::numa_node:
      return "host bridges of one NUMA node";
    case distance::system:
      return "the link between NUMA nodes";
    case distance::unknown:
      break;
  }
  return "not known";
}

distance between(const pci_place& one, const pci_place& other) noexcept {
  if (!one.known() || !other.known()) return distance::unknown;
  const std::size_t common = common_length(one, other);
  if (common == 0) return one.numa_node == other.numa_node ? distance::numa_node : distance::system;
  if (common == 1) return distance::host_bridge;
  const std::size_t longest = std::max(one.path.size(), other.path.size());
  return longest - common <= below_one_switch ? distance::same_switch : distance::several_switches;
}

std::vector<std::size_t> by_distance(const pci_place& device, std::size_t turn,
                                     const std::vector<pci_place>& nics) {
  std::vector<std::size_t> order(nics.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank_of = [&](std::size_t nic) { return rank(device, nics[nic]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank_of(a) < rank_of(b); });
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::find_if(
        first, order.end(), [&](std::size_t nic) { return rank_of(nic) != rank_of(*first); });
    const auto count = static_cast<std::size_t>(last - first);
    if (rank_of(*first).first != distance::unknown)
      std::rotate(first, first + static_cast<std::ptrdiff_t>(turn % count), last);
    first = last;
  }
  return order;
}

}  // namespace gaudi::topo
