// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "messages.hpp"
#include "print.hpp"
#include "topo/distance.hpp"

namespace gaudi::info {
namespace {

using nlohmann::json;

const char* text_of(owner_mode mode) {
  switch (mode) {
    case owner_mode::owner:
      return "owner";
    case owner_mode::other_process:
      return "other process";
    case owner_mode::none:
      break;
  }
  return "none";
}

json holders(const device_fact& d) {
  json list = json::array();
  for (const auto& h : d.holders)
    list.push_back({{"pid", h.pid}, {"command", h.command}, {"synapse", h.synapse}});
  return list;
}

json devices(const report& r) {
  json list = json::array();
  for (const auto& d : r.devices)
    list.push_back({{"index", d.index},
                    {"name", d.name},
                    {"pci", d.bus_id},
                    {"pci_path", d.place.path},
                    {"numa_node", d.place.numa_node},
                    {"module_id", d.module_id},
                    {"copy_engine", d.copies ? "dma" : "none"},
                    {"hbm_total", d.hbm_total},
                    {"hbm_free", d.hbm_free},
                    {"state", d.state},
                    {"owner_mode", text_of(d.mode)},
                    {"holders", holders(d)}});
  return list;
}

json nics(const report& r) {
  json list = json::array();
  for (const auto& n : r.nics) {
    json nic{{"name", n.name},
             {"driver", n.driver},
             {"link", n.link},
             {"rate", n.rate},
             {"link_layer", n.layer},
             {"interface", n.interface},
             {"mtu", n.mtu},
             {"pci", n.place.bus_id()},
             {"pci_path", n.place.path},
             {"numa_node", n.place.numa_node}};
    if (r.probed) nic["offered"] = n.offered;
    list.push_back(std::move(nic));
  }
  return list;
}

const probe_fact* probe_of(const report& r, std::size_t device, std::size_t nic) {
  for (const auto& p : r.probes)
    if (p.device == device && p.nic == nic) return &p;
  return nullptr;
}

json ways(const report& r) {
  json list = json::array();
  for (std::size_t device = 0; device < r.devices.size(); ++device) {
    for (std::size_t nic = 0; nic < r.nics.size(); ++nic) {
      json way{
          {"device", r.devices[device].index},
          {"nic", r.nics[nic].name},
          {"distance", topo::label_of(topo::between(r.devices[device].place, r.nics[nic].place))}};
      if (const probe_fact* p = probe_of(r, device, nic)) {
        way["path"] = p->zero_copy ? "zero-copy" : "staged";
        if (!p->zero_copy) {
          way["reason"] = p->why.reason;
          way["remedy"] = p->why.remedy;
          way["error"] = fi_strerror(std::abs(p->code));
        }
      }
      list.push_back(std::move(way));
    }
  }
  return list;
}

json length(std::uint64_t bytes) {
  return bytes == copy::copy_row::never ? json(nullptr) : json(bytes);
}

json copies(const report& r) {
  json list = json::array();
  for (const auto& c : r.copies) {
    for (const copy::direction dir : copy::all_directions) {
      const copy::copy_row& row = c.table[dir];
      json one({{"device", r.devices[c.device].index},
                {"direction", copy::name_of(dir)},
                {"measured", row.is_measured()},
                {"gigabytes_per_second", row.bytes_per_ns},
                {"microseconds_alone", row.latency_ns / 1e3},
                {"microseconds_each", row.each_ns / 1e3},
                {"pin", length(row.pin)},
                {"split", length(row.split)},
                {"chunk", row.chunk}});
      if (dir == copy::direction::host_to_device)
        one["nic"] = c.table.nic == 0 ? json(nullptr) : json(c.table.nic);
      list.push_back(std::move(one));
    }
  }
  return list;
}

json rails(const report& r) {
  json list = json::array();
  for (const auto& f : r.rails)
    list.push_back({{"nic", f.nic}, {"rails", f.rails}, {"left_out", f.left_out}});
  return list;
}

json messages(const report& r) {
  json list = json::array();
  for (const auto& m : r.messages)
    list.push_back({{"from", m.from},
                    {"to", m.to},
                    {"way", way_text(m.chosen.path)},
                    {"reason", base::name_of(m.chosen.reason)}});
  return list;
}

json software(const software_fact& s) {
  json facts{{"libfabric", s.libfabric},
             {"provider_found", s.provider_found},
             {"core", s.core},
             {"libhl_thunk", s.thunk},
             {"kernel", s.kernel},
             {"habanalabs", s.gaudi_driver},
             {"open_files", s.open_files},
             {"locked_memory", s.locked_memory}};
  facts["kernel_has_dmabuf_rdma"] =
      s.kernel_has_dmabuf_rdma ? json(*s.kernel_has_dmabuf_rdma) : json(nullptr);
  return facts;
}

json obstacles(const std::vector<finding>& findings) {
  json list = json::array();
  for (const auto& f : findings)
    list.push_back({{"weight", text_of(f.weight)},
                    {"subject", f.subject},
                    {"finding", f.text},
                    {"commands", f.commands}});
  return list;
}

json parameters(const report& r) {
  json list = json::array();
  for (const auto& p : r.parameters)
    list.push_back(
        {{"name", p.variable}, {"value", p.value}, {"given", p.given}, {"valid", p.valid}});
  return list;
}

}  // namespace

void print_json(const report& r, const verdict* v, const std::vector<finding>& findings) {
  json document{
      {"tool", "gaudi_info"}, {"version", GAUDI_INFO_VERSION},    {"devices", devices(r)},
      {"nics", nics(r)},      {"gaudi_ports", r.gaudi_ports},     {"ways", ways(r)},
      {"rails", rails(r)},    {"software", software(r.software)}, {"parameters", parameters(r)}};
  document["messages"] = messages(r);
  if (r.probed) document["copies"] = copies(r);
  if (v)
    document["verdict"] = {{"code", static_cast<int>(v->what)},
                           {"finding", v->finding},
                           {"remedy", v->remedy},
                           {"commands", v->commands}};
  if (v) document["findings"] = obstacles(findings);
  fmt::print("{}\n", document.dump(2));
}

}  // namespace gaudi::info
