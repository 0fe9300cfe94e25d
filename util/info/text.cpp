// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "messages.hpp"
#include "print.hpp"
#include "topo/distance.hpp"

namespace gaudi::info {
namespace {

constexpr std::size_t columns = 80;
constexpr double gib = 1024.0 * 1024 * 1024;

std::string or_dash(std::string_view text) {
  return std::string(text.empty() ? "-" : text);
}

std::string node_text(int node) {
  return node < 0 ? "-" : std::to_string(node);
}

/// Breaks at blanks, so that the lines fit; those behind the first begin at column `indent`.
void print_wrapped(const std::string& text, const std::string& label = "", std::size_t indent = 2) {
  std::istringstream words(text);
  std::string line = fmt::format("{:<{}}", label, indent - 1);
  bool begun = false;
  for (std::string word; words >> word; begun = true) {
    if (begun && line.size() + 1 + word.size() > columns) {
      fmt::print("{}\n", line);
      line.assign(indent - 1, ' ');
    }
    line.append(1, ' ').append(word);
  }
  fmt::print("{}\n", line);
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// "process 4711 (python3, Synapse) and 1 more"
std::string owner_text(const device_fact& d) {
  if (d.mode == owner_mode::owner) return "none; the provider would open it (owner mode)";
  if (d.mode == owner_mode::none) return "-";
  if (d.holders.empty()) return "a process that cannot be seen from here";
  const holder& first = d.holders.front();
  const std::string others =
      d.holders.size() > 1 ? fmt::format(" and {} more", d.holders.size() - 1) : "";
  return fmt::format("process {} ({}{}){}", first.pid, first.command,
                     first.synapse ? ", Synapse" : "", others);
}

void print_devices(const report& r) {
  fmt::print("Gaudis\n");
  if (r.devices.empty()) {
    fmt::print("  none\n\n");
    return;
  }
  fmt::print("  {:<5} {:<16} {:<12} {:>4} {:>6} {:>18}\n", "index", "name", "PCI", "NUMA", "module",
             "HBM free/total GiB");
  for (const auto& d : r.devices)
    fmt::print("  {:<5} {:<16} {:<12} {:>4} {:>6} {:>18}\n", d.index, d.name, or_dash(d.bus_id),
               node_text(d.place.numa_node), d.module_id,
               fmt::format("{:.1f} / {:.1f}", static_cast<double>(d.hbm_free) / gib,
                           static_cast<double>(d.hbm_total) / gib));
  fmt::print("\n  {:<5} {:<16} {:<6} {}\n", "index", "state", "engine", "owner");
  for (const auto& d : r.devices)
    fmt::print("  {:<5} {:<16} {:<6} {}\n", d.index, d.state, d.copies ? "dma" : "none",
               owner_text(d));
  if (std::any_of(r.devices.begin(), r.devices.end(), [](const auto& d) { return !d.copies; }))
    print_wrapped(
        "Engine none: a Gaudi3 offers no copies through libhl-thunk. A NIC that reaches its memory "
        "moves data, nothing else does: it cannot be staged.");
  fmt::print("\n");
}

/// "verdict" of a NIC over all devices.
const char* dmabuf_text(const report& r, std::size_t nic) {
  if (!r.probed) return "not probed";
  if (!r.nics[nic].offered) return "not offered";
  std::size_t good = 0;
  std::size_t all = 0;
  for (const auto& p : r.probes) {
    if (p.nic != nic) continue;
    ++all;
    if (p.zero_copy) ++good;
  }
  if (all == 0) return "not probed";
  if (good == all) return "yes";
  return good == 0 ? "no" : "partly";
}

/// "ACTIVE 100 Gb/s RoCE"
std::string link_text(const nic_fact& n) {
  const std::string rate = n.rate.substr(0, n.rate.find(' '));
  if (rate.empty()) return n.link;
  return fmt::format("{} {} Gb/s {}", n.link, rate, n.layer == "Ethernet" ? "RoCE" : "IB");
}

void print_gaudi_ports(const report& r) {
  if (!r.gaudi_ports.empty())
    print_wrapped("Not among them, as they are Gaudis' own ports, to other Gaudis: " +
                  joined(r.gaudi_ports, ", ") + ".");
  fmt::print("\n");
}

void print_nics(const report& r) {
  fmt::print("RDMA devices\n");
  if (r.nics.empty()) {
    fmt::print("  none: core tcp carries the data, device memory goes through host memory\n");
    print_gaudi_ports(r);
    return;
  }
  fmt::print("  {:<9} {:<16} {:<12} {:>4}  {:<10} {}\n", "name", "driver", "PCI", "NUMA", "dma-buf",
             "link");
  for (std::size_t i = 0; i < r.nics.size(); ++i) {
    const auto& n = r.nics[i];
    fmt::print("  {:<9} {:<16} {:<12} {:>4}  {:<10} {}\n", n.name, or_dash(n.driver),
               or_dash(n.place.bus_id()), node_text(n.place.numa_node), dmabuf_text(r, i),
               link_text(n));
  }
  print_gaudi_ports(r);
}

/// Distance, and behind it how data goes: as far as it was tried.
std::string cell(const report& r, std::size_t device, std::size_t nic) {
  std::string text = topo::label_of(topo::between(r.devices[device].place, r.nics[nic].place));
  const auto tried = std::find_if(r.probes.begin(), r.probes.end(), [&](const probe_fact& p) {
    return p.device == device && p.nic == nic;
  });
  if (tried == r.probes.end()) return text;
  return text + (tried->zero_copy ? " Z" : " S");
}

void print_messages(const report& r) {
  if (r.messages.empty()) return;
  fmt::print("Long messages to another host that is set up like this one\n");
  for (const message_fact& m : r.messages)
    print_wrapped(fmt::format("{}: {}", way_text(m.chosen.path), base::text_of(m.chosen.reason)),
                  fmt::format("  {:<7} to {:<7}", m.from, m.to), 21);
  fmt::print("\n");
}

void print_rails(const report& r) {
  if (r.rails.empty()) return;
  fmt::print("Rails of an endpoint (FI_GAUDI_RAILS)\n  {:<9} {}\n", "on", "long transfers over");
  for (const rails_fact& f : r.rails) fmt::print("  {:<9} {}\n", f.nic, joined(f.rails, " "));
  for (const rails_fact& f : r.rails)
    if (!f.left_out.empty())
      print_wrapped(fmt::format("Left out on {}, without an address like its own: {}.", f.nic,
                                joined(f.left_out, ", ")));
  fmt::print("\n");
}

void print_trimmed(const std::string& line) {
  fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

/// As many NICs side by side as the width holds.
void print_matrix(const report& r) {
  if (r.devices.empty() || r.nics.empty()) return;
  std::size_t width = 7;
  for (const auto& n : r.nics) width = std::max(width, n.name.size() + 1);
  constexpr std::size_t label = 10;
  const std::size_t side_by_side = std::max<std::size_t>(1, (columns - label) / width);
  fmt::print("Way from Gaudi to RDMA device\n");
  for (std::size_t first = 0; first < r.nics.size(); first += side_by_side) {
    const std::size_t last = std::min(first + side_by_side, r.nics.size());
    std::string heads(label, ' ');
    for (std::size_t nic = first; nic < last; ++nic)
      heads += fmt::format("{:<{}}", r.nics[nic].name, width);
    print_trimmed(heads);
    for (std::size_t device = 0; device < r.devices.size(); ++device) {
      std::string row =
          fmt::format("  {:<{}}", fmt::format("gaudi{}", r.devices[device].index), label - 2);
      for (std::size_t nic = first; nic < last; ++nic)
        row += fmt::format("{:<{}}", cell(r, device, nic), width);
      print_trimmed(row);
    }
  }
}

/// Explains the distances that occur.
void print_legend(const report& r) {
  if (r.devices.empty() || r.nics.empty()) return;
  std::set<topo::distance> shown;
  for (const auto& d : r.devices)
    for (const auto& n : r.nics) shown.insert(topo::between(d.place, n.place));
  for (const auto d : shown) fmt::print("  {:<5}{}\n", topo::label_of(d), topo::text_of(d));
  if (r.probed)
    fmt::print(
        "  Z    the NIC reads and writes the memory itself (tried)\n"
        "  S    staged through host memory (tried)\n");
  else
    fmt::print("  gaudi_info --doctor tries how data goes there.\n");
  fmt::print("\n");
}

void print_copies(const report& r) {
  if (r.copies.empty()) return;
  fmt::print("Copies (rate and times where they were measured; lengths in bytes)\n");
  fmt::print("  {:<8} {:<4} {:>6} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}\n", "", "", "GB/s",
             "us alone", "us each", "pin", "split", "chunk", "nic");
  for (const auto& c : r.copies) {
    for (const copy::direction dir : copy::all_directions) {
      const copy::copy_row& row = c.table[dir];
      const auto figure = [&](double value) {
        return row.is_measured() ? fmt::format("{:.1f}", value) : std::string("-");
      };
      const bool is_to_device = dir == copy::direction::host_to_device;
      fmt::print("  {:<8} {:<4} {:>6} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}\n",
                 fmt::format("gaudi{}", r.devices[c.device].index), copy::name_of(dir),
                 figure(row.bytes_per_ns), figure(row.latency_ns / 1e3), figure(row.each_ns / 1e3),
                 copy::length_text(row.pin), copy::length_text(row.split),
                 row.chunk != 0 ? copy::length_text(row.chunk) : "auto",
                 is_to_device ? copy::limit_text(c.table.nic) : "-");
    }
  }
  fmt::print("\n");
}

std::string limit_text(std::uint64_t limit, bool bytes) {
  if (limit == UINT64_MAX) return "unlimited";
  return bytes ? fmt::format("{} KiB", limit / 1024) : std::to_string(limit);
}

void print_software(const software_fact& s) {
  const auto line = [](const char* what, const std::string& value) {
    fmt::print("  {:<22}{}\n", what, value);
  };
  fmt::print("Software\n");
  line("libfabric", s.libfabric);
  line("provider gaudi", s.provider_found ? "found" : "NOT FOUND (see FI_PROVIDER_PATH)");
  line("core", s.core.empty() ? "none" : s.core);
  line("libhl-thunk", s.thunk.empty() ? "NOT FOUND (see FI_GAUDI_HLTHUNK)" : s.thunk);
  line("kernel", s.kernel);
  line("habanalabs driver", s.gaudi_driver.empty() ? "none, or it does not tell" : s.gaudi_driver);
  line("RDMA on dma-bufs", !s.kernel_has_dmabuf_rdma   ? "unknown (/proc/kallsyms is not readable)"
                           : *s.kernel_has_dmabuf_rdma ? "yes (ib_umem_dmabuf_get)"
                                                       : "no (no ib_umem_dmabuf_get)");
  line("open files at most", limit_text(s.open_files, false));
  line("locked memory at most", limit_text(s.locked_memory, true));
  fmt::print("\n");
}

void print_parameters(const report& r, bool all) {
  const auto is_shown = [&](const parameter_fact& p) { return all || p.given; };
  std::size_t width = 0;
  for (const auto& p : r.parameters)
    if (is_shown(p)) width = std::max(width, p.variable.size() + 2);
  fmt::print("Parameters {}\n", all          ? "(* given, not the default)"
                                : width == 0 ? "all at their defaults; --all lists them"
                                             : "that were given; --all lists the others, too");
  for (const auto& p : r.parameters)
    if (is_shown(p))
      fmt::print("  {} {:<{}}{}{}\n", p.given ? '*' : ' ', p.variable, width,
                 p.value.empty() ? "(empty)" : p.value, p.valid ? "" : "   NOT VALID");
}

void print_commands(const std::vector<std::string>& commands) {
  for (const auto& line : commands) fmt::print("    {}\n", line);
}

}  // namespace

void print_text(const report& r, bool all) {
  print_devices(r);
  print_nics(r);
  print_matrix(r);
  print_legend(r);
  print_messages(r);
  print_rails(r);
  print_copies(r);
  print_software(r.software);
  print_parameters(r, all);
}

void print_verdict(const verdict& v, const std::vector<finding>& findings) {
  fmt::print("Verdict\n");
  print_wrapped(v.finding);
  if (!v.remedy.empty()) print_wrapped(fmt::format("To change that: {}.", v.remedy));
  print_commands(v.commands);
  fmt::print("\n");
  if (findings.empty()) return;
  fmt::print("Also found, the worst first (each with a remedy to paste)\n");
  for (const auto& f : findings) {
    print_wrapped(fmt::format("{}: {}: {}", text_of(f.weight), f.subject, f.text));
    print_commands(f.commands);
  }
  fmt::print("\n");
}

}  // namespace gaudi::info
