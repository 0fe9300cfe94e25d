// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_spec.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/log.hpp"

namespace gaudi::device {
namespace {

// hl-thunk looks at no more minors than this (HLTHUNK_MAX_MINOR); module ids are far fewer.
constexpr unsigned max_number = 255;

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value > max_number) return {};
  return value;
}

/// dddd:bb:dd.f with the domain optional, in the form that hl-thunk compares: lower case, with
/// domain.
std::optional<std::string> bus_id(std::string_view text) {
  std::string id(text);
  if (id.size() == 7) id.insert(0, "0000:");
  constexpr std::string_view shape = "xxxx:xx:xx.x";
  if (id.size() != shape.size()) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto c = static_cast<unsigned char>(id[i]);
    if (shape[i] == 'x' ? std::isxdigit(c) == 0 : id[i] != shape[i]) return {};
    id[i] = static_cast<char>(std::tolower(c));
  }
  return id;
}

}  // namespace

base::result<device_spec> device_spec::parse(std::string_view text) {
  constexpr std::string_view module = "module:";
  if (text.empty()) return device_spec{first_free{}};
  if (text.starts_with(module)) {
    if (const auto id = number(text.substr(module.size()))) return device_spec{by_module{*id}};
  } else if (const auto index = number(text)) {
    return device_spec{by_index{static_cast<int>(*index)}};
  } else if (auto id = bus_id(text)) {
    return device_spec{by_bus_id{std::move(*id)}};
  }
  GAUDI_WARN(CORE,
             "FI_GAUDI_DEVICE=\"%.*s\" is not a device: give an index (0), a module id (module:3), "
             "a PCI address (0000:19:00.0), several of these with commas between them, all, or "
             "nothing for the first free one.\n",
             static_cast<int>(text.size()), text.data());
  return base::error{-FI_EINVAL};
}

std::string device_spec::describe() const {
  struct text {
    std::string operator()(const first_free&) const { return "any device"; }
    std::string operator()(const by_index& c) const { return "device " + std::to_string(c.value); }
    std::string operator()(const by_module& c) const { return "module " + std::to_string(c.value); }
    std::string operator()(const by_bus_id& c) const { return "device " + c.value; }
  };
  return std::visit(text{}, choice);
}

}  // namespace gaudi::device
