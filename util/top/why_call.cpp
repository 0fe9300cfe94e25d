// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "why_call.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "table.hpp"
#include "why_peer.hpp"

namespace gaudi::top {
namespace {

using base::outstanding::call_kind;
using base::outstanding::record;

std::string bytes_of(const record& call) {
  return short_number(static_cast<double>(call.total));
}

std::string gaudi_of(const record& call) {
  return call.device < 0 ? "a Gaudi" : fmt::format("gaudi{}", call.device);
}

}  // namespace

const record* stuck_call(const outstanding_view& p, std::uint64_t now) {
  if (p.calls.empty() || since(p.calls.front().since, now) < second) return nullptr;
  return &p.calls.front();
}

std::string nic_of_call(const record& call) {
  std::string name(
      reinterpret_cast<const char*>(call.address.data()),
      ::strnlen(reinterpret_cast<const char*>(call.address.data()), call.address.size()));
  for (char& c : name)
    if (c < ' ' || c > '~') c = '?';
  return name;
}

std::string call_text(const record& call) {
  switch (static_cast<call_kind>(call.type)) {
    case call_kind::open_device:
      return fmt::format("opening {}", gaudi_of(call));
    case call_kind::export_memory:
      return fmt::format("exporting {} bytes of {} as a dma-buf", bytes_of(call), gaudi_of(call));
    case call_kind::register_memory:
      return fmt::format("registering {} bytes of host memory with {}", bytes_of(call),
                         nic_of_call(call));
    case call_kind::register_dmabuf:
      return fmt::format("registering {} bytes of device memory with {}", bytes_of(call),
                         nic_of_call(call));
    case call_kind::other:
      break;
  }
  return "something that this release does not know";
}

std::string_view name_of_call(const record& call) {
  static constexpr std::array<std::string_view, 5> names{"other", "open_device", "export_memory",
                                                         "register_memory", "register_dmabuf"};
  return call.type < names.size() ? names[call.type] : "unknown";
}

}  // namespace gaudi::top
