// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/nic_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "device/sysfs.hpp"
#include "topo/distance.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::fi {
namespace {

/// The PCI address of a device that nobody has opened yet.
struct bus_id_of_choice {
  const device::sysfs& names;
  const std::filesystem::path& root;

  std::optional<std::string> operator()(const device::device_spec::by_bus_id& which) const {
    return which.value;
  }
  std::optional<std::string> operator()(const device::device_spec::by_index& which) const {
    return names.bus_id_of_index(which.value);
  }
  std::optional<std::string> operator()(const device::device_spec::by_module& which) const {
    return names.bus_id_of_module(which.value);
  }
  std::optional<std::string> operator()(const device::device_spec::first_free&) const {
    std::optional<std::string> only;
    for (const auto& node : topo::class_devices("accel", root / "class")) {
      const auto digits = node.find_first_of("0123456789");
      if (digits == std::string::npos) continue;
      auto found = names.bus_id_of_index(std::atoi(node.c_str() + digits));
      if (!found) continue;
      if (only) return std::nullopt;  // which one is free shows when it is opened
      only = std::move(found);
    }
    return only;
  }
};

std::optional<std::string> bus_id_in_use(const provider_context& context,
                                         const device::sysfs& names,
                                         const std::filesystem::path& root) {
  if (const auto open = context.devices.opened()) {
    if (open->attributes().simulated) return std::nullopt;
    return open->attributes().bus_id;
  }
  const auto chosen = device::device_list::parse(context.params.device);
  if (!chosen) return std::nullopt;
  return std::visit(bus_id_of_choice{names, root}, chosen->first().choice);
}

std::vector<std::string> nearest_first(const std::vector<std::string>& names,
                                       const nic_order& order) {
  std::vector<topo::pci_place> places;
  places.reserve(names.size());
  for (const auto& name : names) places.push_back(topo::place_of_nic(name, order.sysfs));
  std::vector<std::string> sorted;
  sorted.reserve(names.size());
  for (const std::size_t i : topo::by_distance(order.device, order.turn, places))
    sorted.push_back(names[i]);
  return sorted;
}

}  // namespace

std::vector<std::string> nics_of(const fi_info* list) {
  std::vector<std::string> names;
  for (const fi_info* info = list; info; info = info->next) {
    const std::string name = info->domain_attr->name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

nic_order order_in_use(const provider_context& context, const std::filesystem::path& sysfs) {
  nic_order order{.wanted = context.params.nics, .device = {}, .sysfs = sysfs};
  // Without a choice among several there is nothing to look for.
  if (!order.wanted.empty() || topo::rdma_devices(sysfs / "class").size() < 2) return order;
  const device::sysfs names(sysfs.string());
  const auto bus_id = bus_id_in_use(context, names, sysfs);
  if (!bus_id) return order;
  order.device = topo::place_of_function(*bus_id, sysfs);
  // Not the module id: that of neighbours on one switch may differ by two.
  order.turn = static_cast<std::size_t>(names.index_of_bus_id(*bus_id).value_or(0));
  return order;
}

core::unique_info in_order(core::unique_info list, const nic_order& order) {
  if (order.wanted.empty() && !order.device.known()) return list;
  const auto preferred =
      order.wanted.empty() ? nearest_first(nics_of(list.get()), order) : order.wanted;
  // Each NIC's entries in a list of its own, then one behind the other.
  fi_info* rest = list.release();
  fi_info* head = nullptr;
  fi_info** tail = &head;
  for (const auto& name : preferred) {
    for (fi_info** at = &rest; *at;) {
      if (name != (*at)->domain_attr->name) {
        at = &(*at)->next;
        continue;
      }
      *tail = std::exchange(*at, (*at)->next);
      tail = &(*tail)->next;
      *tail = nullptr;
    }
  }
  *tail = rest;
  return core::unique_info(head);
}

}  // namespace gaudi::fi
