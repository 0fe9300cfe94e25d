// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/named_devices.hpp"

#include <rdma/fi_errno.h>

#include <atomic>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "device/device.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/info/hmem.hpp"
#include "fi/info/naming.hpp"
#include "hl/synapse.hpp"

namespace gaudi::fi {
namespace {

using base::error;
using base::result;

/// Null where it does not load: the machine has no Gaudi that could be named.
std::shared_ptr<const hl::thunk> library(const provider_context& context) {
  auto loaded = context.devices.library(context.params.hlthunk);
  return loaded ? *std::move(loaded) : nullptr;
}

/// "0,1"; empty where there are none.
std::string list_text(const std::vector<int>& indices) {
  std::string text;
  for (const int index : indices)
    text += (text.empty() ? "" : ",") + (index < 0 ? std::string("?") : std::to_string(index));
  return text;
}

std::vector<int> indices_here(const hl::thunk& thunk) {
  auto found = device::device_indices(thunk);
  return found ? *std::move(found) : std::vector<int>{};
}

/// Said once; the call fails each time, as the device may come back.
error refuse(const base::params& params, const device::device_spec& missing,
             const hl::thunk& thunk) {
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    const std::vector<int> here = indices_here(thunk);
    GAUDI_WARN(
        CORE,
        "FI_GAUDI_DEVICE=\"%s\": %s is not a Gaudi of this machine, which has %zu (index %s); "
        "correct or unset it (gaudi_info lists them). The provider is not usable until then.\n",
        params.device.c_str(), missing.describe().c_str(), here.size(), list_text(here).c_str());
  }
  return error{-FI_ENODEV};
}

result<void> look_for(const base::params& params, const device::device_list& chosen,
                      const hl::thunk& thunk) {
  for (const auto& which : chosen.listed)
    if (device::device::index_named(thunk, which).code() == -FI_ENODEV)
      return refuse(params, which, thunk);
  return {};
}

/// Without a choice among several one of them is meant; empty: which one shows when it is opened.
std::vector<int> default_indices(const device::device_registry& devices, const hl::thunk& thunk) {
  if (const auto open = devices.opened()) return {open->attributes().index};
  auto here = indices_here(thunk);
  if (here.size() > 1) here.clear();
  return here;
}

std::vector<int> indices_chosen(const provider_context& context, const hl::thunk& thunk) {
  const std::string& named = context.params.device;
  const auto chosen = device::device_list::parse(named);
  if (!chosen) return {};
  if (chosen->all) return indices_here(thunk);
  if (named.empty()) return default_indices(context.devices, thunk);
  std::vector<int> indices;
  for (const auto& which : chosen->listed) {
    const auto index = device::device::index_named(thunk, which);
    indices.push_back(index ? *index : -1);
  }
  return indices;
}

}  // namespace

result<void> check_named_devices(const provider_context& context) {
  const base::params& params = context.params;
  static std::atomic<bool> known_good;
  if (params.device.empty() || known_good.load(std::memory_order_acquire)) return {};
  static const result<device::device_list> chosen = device::device_list::parse(params.device);
  if (!chosen) return chosen.failure();
  if (hl::synapse::find() || !has_real_probe() || !device_expected(params) ||
      !device_present(context))
    return {};
  const auto thunk = library(context);
  if (!thunk) return {};
  const auto found = look_for(params, *chosen, *thunk);
  if (found) known_good.store(true, std::memory_order_release);
  return found;
}

std::string devices_label(const provider_context& context) {
  if (hl::synapse::find()) return "synapse";
  const auto thunk = library(context);
  const auto indices = thunk ? indices_chosen(context, *thunk) : std::vector<int>{};
  return indices.empty() ? "any" : "gaudi" + list_text(indices);
}

void name_devices(fi_info* list, const char* asked, const provider_context& context) {
  std::optional<std::string> label;
  for (fi_info* info = list; info; info = info->next) {
    const char* name = info->domain_attr->name;
    if (!has_hmem(*info) || !name || names_device(name)) continue;
    if (!label && !asked) label = devices_label(context);
    replace(info->domain_attr->name, asked ? asked : std::string(name) + device_mark + *label);
  }
}

}  // namespace gaudi::fi
