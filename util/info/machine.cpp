// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "machine.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "file_line.hpp"
#include "nodes.hpp"
#include "topo/distance.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

// Of the log only what is recent enough to matter.
constexpr std::streamoff log_tail = 256 << 10;
constexpr std::size_t max_denials = 3;

container_kind container_of(const machine_roots& roots) {
  if (roots.in_kubernetes) return container_kind::kubernetes;
  for (const char* mark : {".dockerenv", "run/.containerenv"})
    if (fs::exists(roots.root / mark)) return container_kind::container;
  return container_kind::none;
}

std::uint64_t soft_limit(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  return ::getrlimit(which, &limit) == 0 ? limit.rlim_cur : 0;
}

credentials credentials_of(const fs::path& proc) {
  constexpr unsigned dac_override = 1;  // numbers of capabilities(7)
  constexpr unsigned ipc_lock = 14;
  credentials self;
  std::ifstream in(proc / "self/status");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Uid:") {
      words >> self.uid >> self.uid;  // the real one, then the effective one
    } else if (key == "Gid:") {
      gid_t group = 0;
      if (words >> group >> group) self.groups.push_back(group);
    } else if (key == "Groups:") {
      std::copy(std::istream_iterator<gid_t>(words), {}, std::back_inserter(self.groups));
    } else if (key == "CapEff:") {
      std::uint64_t bits = 0;
      words >> std::hex >> bits;
      self.overrides_modes = (bits >> dac_override & 1) != 0;
      self.locks_any_amount = (bits >> ipc_lock & 1) != 0;
    }
  }
  return self;
}

/// The ACS control bits of a port by its configuration space: PCIe's extended capability 0x000d.
port_fact look_at_port(const fs::path& sysfs, const std::string& bus_id) {
  constexpr std::size_t first_extended = 0x100;
  constexpr std::uint32_t acs = 0x000d;
  constexpr unsigned redirects_requests = 0x04;
  constexpr unsigned redirects_completions = 0x08;
  std::ifstream in(sysfs / "bus/pci/devices" / bus_id / "config", std::ios::binary);
  const std::string space{std::istreambuf_iterator<char>(in), {}};
  port_fact port{.bus_id = bus_id};
  port.readable = space.size() > first_extended;  // who is not root gets 64 bytes
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4 && at + i < space.size(); ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(space[at + i])) << (8 * i);
    return value;
  };
  // A list that leads back to itself ends, too: it is no longer than the space.
  std::size_t steps = space.size() / 4;
  for (std::size_t at = first_extended; at >= first_extended && at < space.size() && steps > 0;
       at = word(at) >> 20, --steps) {
    if ((word(at) & 0xffff) != acs) continue;
    const std::uint32_t control = word(at + 4) >> 16;
    port.redirects = (control & (redirects_requests | redirects_completions)) != 0;
    break;
  }
  return port;
}

/// The ports that two functions below one switch do not have in common.
std::vector<std::string> ports_between(const topo::pci_place& one, const topo::pci_place& other) {
  std::vector<std::string> ports;
  const auto [from, to] =
      std::mismatch(one.path.begin(), one.path.end(), other.path.begin(), other.path.end());
  for (const auto& [at, end] : {std::pair(from, one.path.end()), std::pair(to, other.path.end())})
    if (at != end) ports.insert(ports.end(), at, std::prev(end));
  return ports;
}

std::vector<port_fact> ports_in_use(const fs::path& sysfs, const report& r) {
  std::set<std::string> names;
  for (const auto& device : r.devices) {
    for (const auto& nic : r.nics) {
      const auto far = topo::between(device.place, nic.place);
      if (far != topo::distance::same_switch && far != topo::distance::several_switches) continue;
      for (auto& name : ports_between(device.place, nic.place)) names.insert(std::move(name));
    }
  }
  std::vector<port_fact> ports;
  ports.reserve(names.size());
  for (const auto& name : names) ports.push_back(look_at_port(sysfs, name));
  return ports;
}

std::vector<iommu_fact> iommu_modes(const fs::path& sysfs, const report& r) {
  std::vector<iommu_fact> modes;
  const auto add = [&](const topo::pci_place& place) {
    if (!place.known()) return;
    const std::string bus_id(place.bus_id());
    modes.push_back(
        {bus_id, first_line(sysfs / "bus/pci/devices" / bus_id / "iommu_group" / "type")});
  };
  for (const auto& device : r.devices) add(device.place);
  for (const auto& nic : r.nics) add(nic.place);
  return modes;
}

bool concerns_us(std::string_view line) {
  constexpr std::array ours{"infiniband", "uverbs", "rdma_cm", "/accel", "habana", "libgaudi-fi"};
  const bool denied = line.find("denied") != line.npos || line.find("DENIED") != line.npos;
  return denied && std::any_of(ours.begin(), ours.end(),
                               [&](const char* word) { return line.find(word) != line.npos; });
}

/// The last few in the logs that this user may read.
std::vector<std::string> recent_denials(const fs::path& root) {
  std::vector<std::string> found;
  for (const char* log : {"var/log/audit/audit.log", "var/log/kern.log"}) {
    std::ifstream in(root / log);
    in.seekg(0, std::ios::end);
    const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
    in.seekg(std::max<std::streamoff>(0, size - log_tail));
    for (std::string line; std::getline(in, line);)
      if (concerns_us(line)) found.push_back(line);
  }
  if (found.size() > max_denials) found.erase(found.begin(), found.end() - max_denials);
  return found;
}

/// "docker-default (enforce)" -> "docker-default"; nothing where the process is not confined.
std::string apparmor_profile(const machine_roots& roots) {
  if (!fs::exists(roots.sysfs / "kernel/security/apparmor")) return {};
  const std::string label = first_line(roots.proc / "self/attr/current");
  const auto mode = label.find(" (enforce)");
  return mode == std::string::npos ? "" : label.substr(0, mode);
}

}  // namespace

machine_fact collect_machine(const machine_roots& roots, const report& r) {
  machine_fact m;
  m.container = container_of(roots);
  m.self = credentials_of(roots.proc);
  m.locked_memory = soft_limit(RLIMIT_MEMLOCK);
  m.open_files = soft_limit(RLIMIT_NOFILE);
  m.nodes = collect_nodes(roots.sysfs, roots.dev);
  m.ports = ports_in_use(roots.sysfs, r);
  m.iommu = iommu_modes(roots.sysfs, r);
  m.has_rdma_devices = !topo::rdma_devices(roots.sysfs / "class").empty();
  m.has_user_verbs = fs::exists(roots.sysfs / "class/infiniband_verbs");
  m.denials = recent_denials(roots.root);
  m.selinux = first_line(roots.sysfs / "fs/selinux/enforce") == "1";
  m.apparmor = apparmor_profile(roots);
  return m;
}

}  // namespace gaudi::info
