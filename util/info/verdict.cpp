// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verdict.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>

#include "remedies.hpp"
#include "topo/distance.hpp"

namespace gaudi::info {
namespace {

cause cause_of(reg::failure_cause why) {
  using reg::failure_cause;
  switch (why) {
    case failure_cause::old_libfabric:
      return cause::old_libfabric;
    case failure_cause::no_kernel_support:
      return cause::no_kernel_support;
    case failure_cause::nic_driver:
      return cause::nic_driver;
    case failure_cause::peer_to_peer:
      return cause::peer_to_peer;
    case failure_cause::small_bar:
      return cause::small_bar;
    case failure_cause::descriptors:
      return cause::descriptors;
    case failure_cause::locked_memory:
      return cause::locked_memory;
    case failure_cause::no_export:
      return cause::no_export;
    case failure_cause::other:
      break;
  }
  return cause::registration;
}

const finding* about(const std::vector<finding>& findings, area wanted) {
  const auto at = std::find_if(findings.begin(), findings.end(),
                               [&](const finding& f) { return f.about == wanted; });
  return at == findings.end() ? nullptr : &*at;
}

verdict access(cause what, const finding& f) {
  return {what, f.text, "give this user, or this container, the right to it", f.commands};
}

std::string holders_of(const device_fact& device) {
  std::string pids;
  for (const auto& h : device.holders) pids += (pids.empty() ? "" : ",") + std::to_string(h.pid);
  return pids;
}

/// What stands in the way before a device and a NIC can be tried together.
verdict judge_machine(const report& r, const std::vector<finding>& findings) {
  for (const auto& p : r.parameters)
    if (!p.valid)
      return {cause::bad_parameter, fmt::format("{}=\"{}\" is not valid.", p.variable, p.value),
              "correct or unset it; man fi_gaudi lists what is allowed",
              commands_for(cause::bad_parameter, p.variable)};
  if (!r.software.provider_found)
    return {cause::provider_not_found, "libfabric does not find the provider gaudi.",
            "set FI_PROVIDER_PATH to the folder of libgaudi-fi.so, and see that FI_PROVIDER names "
            "gaudi or is unset"};
  if (r.software.thunk.empty())
    return {cause::no_library, "libhl-thunk is not found.",
            "install habanalabs-thunk, or name the library with FI_GAUDI_HLTHUNK"};
  if (r.devices.empty()) {
    if (const finding* f = about(findings, area::gaudi_access))
      return access(cause::no_right_to_device, *f);
    return {cause::no_device, "The driver shows no Gaudi.",
            "load the habanalabs driver (modprobe habanalabs) and look at hl-smi and dmesg"};
  }
  if (r.nics.empty())
    return {cause::no_rdma_device, "This machine has no RDMA device.",
            "load the NIC's RDMA driver; ibv_devices and rdma link show what there is"};
  const bool any_offered =
      std::any_of(r.nics.begin(), r.nics.end(), [](const nic_fact& n) { return n.offered; });
  if (const finding* f = about(findings, area::rdma_access); f && !any_offered)
    return access(cause::no_right_to_nic, *f);
  if (!any_offered)
    return {cause::nic_not_offered, "libfabric offers no endpoint on any RDMA device.",
            "see that a port is ACTIVE and its interface has an IP address; FI_PROVIDER=verbs "
            "FI_LOG_LEVEL=info fi_info -p verbs tells more"};
  return {};
}

verdict judge_opening(const device_fact& device, int code) {
  const std::string which = fmt::format("{} {}", device.name, device.bus_id);
  if (code == -FI_EBUSY)
    return {cause::device_busy, fmt::format("{} is in use, so it was not probed.", which),
            "end the process that has it open, or run this again later"};
  if (code == -FI_EAGAIN)
    return {cause::device_in_reset, fmt::format("{} is in reset.", which),
            "wait some seconds; if it stays so, look at dmesg"};
  return {cause::device_fails, fmt::format("failed to open {}: {}.", which, fi_strerror(-code)),
          "look at hl-smi and dmesg"};
}

/// The failure on the NIC that the device would prefer.
const probe_fact& nearest(const report& r, const std::vector<const probe_fact*>& failed) {
  return **std::min_element(failed.begin(), failed.end(), [&](const auto* a, const auto* b) {
    const auto& device = r.devices[a->device].place;
    return topo::between(device, r.nics[a->nic].place) <
           topo::between(device, r.nics[b->nic].place);
  });
}

verdict judge_device(const report& r, std::size_t device) {
  const auto unopened = std::find_if(r.unprobed.begin(), r.unprobed.end(),
                                     [&](const auto& u) { return u.device == device; });
  if (unopened != r.unprobed.end()) return judge_opening(r.devices[device], unopened->code);
  std::vector<const probe_fact*> failed;
  for (const auto& p : r.probes) {
    if (p.device != device) continue;
    if (p.zero_copy) return {};
    failed.push_back(&p);
  }
  if (failed.empty()) return {};
  const probe_fact& p = nearest(r, failed);
  const device_fact& d = r.devices[device];
  return {
      cause_of(p.why.cause),
      fmt::format("{} cannot read and write the memory of {} {}: {} ({}).{}", r.nics[p.nic].name,
                  d.name, d.bus_id, p.why.reason, fi_strerror(std::abs(p.code)),
                  d.copies ? "" : " It cannot be staged either, for want of a copy engine."),
      p.why.remedy};
}

}  // namespace

verdict judge(const report& r, const std::vector<finding>& findings) {
  verdict found = judge_machine(r, findings);
  for (std::size_t device = 0; found.what == cause::none && device < r.devices.size(); ++device) {
    found = judge_device(r, device);
    const auto& name = r.devices[device];
    if (found.what != cause::none)
      found.commands = commands_for(
          found.what, found.what == cause::device_busy ? holders_of(name) : name.bus_id);
  }
  if (found.what == cause::none)
    return {cause::none, "A NIC reads and writes the memory of each Gaudi: zero copy.", ""};
  if (found.commands.empty()) found.commands = commands_for(found.what, "");
  return found;
}

}  // namespace gaudi::info
