// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/nic_bus.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "topo/pci_place.hpp"

namespace gaudi::fi {
namespace {

/// One hexadecimal field, which ends at `separator` or, with 0, at the end. Nothing where it is
/// none, or does not fit (virtual PCI domains may have more than 16 bits).
template <class Number>
bool take(std::string_view& text, Number& number, char separator) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, 16);
  const bool ends_well = separator ? at != end && *at == separator : at == end;
  if (error != std::errc{} || !ends_well) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + (separator ? 1 : 0));
  return true;
}

/// "0000:19:00.0".
std::optional<fi_pci_attr> parse(std::string_view bus_id) {
  fi_pci_attr pci{};
  if (take(bus_id, pci.domain_id, ':') && take(bus_id, pci.bus_id, ':') &&
      take(bus_id, pci.device_id, '.') && take(bus_id, pci.function_id, '\0'))
    return pci;
  return std::nullopt;
}

}  // namespace

void add_pci_addresses(fi_info* list, const std::filesystem::path& sysfs) {
  for (fi_info* info = list; info; info = info->next) {
    fi_bus_attr* const bus = info->nic ? info->nic->bus_attr : nullptr;
    if (!bus || bus->bus_type == FI_BUS_PCI || !info->domain_attr->name) continue;
    const auto place = topo::place_of_nic(info->domain_attr->name, sysfs);
    if (const auto pci = parse(place.bus_id())) {
      bus->bus_type = FI_BUS_PCI;
      bus->attr.pci = *pci;
    }
  }
}

}  // namespace gaudi::fi
