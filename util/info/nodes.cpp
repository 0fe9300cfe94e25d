// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "nodes.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "base/scoped_fd.hpp"
#include "file_line.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

std::string name_of_group(gid_t group) {
  std::array<char, 4096> text{};
  struct group entry {};
  struct group* found = nullptr;
  const bool known = ::getgrgid_r(group, &entry, text.data(), text.size(), &found) == 0 && found;
  return known ? found->gr_name : std::to_string(group);
}

node_fact look_at(const fs::path& path, bool of_gaudi, bool try_to_open) {
  node_fact node{.path = path, .of_gaudi = of_gaudi};
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return node;
  node.present = true;
  node.mode = facts.st_mode;
  node.owner = facts.st_uid;
  node.group = facts.st_gid;
  node.group_name = name_of_group(facts.st_gid);
  node.major = major(facts.st_rdev);
  if (!try_to_open) return node;
  const base::scoped_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  node.open_error = fd ? 0 : errno;
  return node;
}

void add_gaudis(const fs::path& sysfs, const fs::path& dev, std::vector<node_fact>& nodes) {
  // Newer kernels, then the driver's own class of those before 6.2.
  for (const auto& [kind, prefix, folder] :
       {std::tuple("accel", std::string("accel"), dev / "accel"),
        std::tuple("habanalabs", std::string("hl"), dev)}) {
    for (const auto& name : topo::class_devices(kind, sysfs / "class")) {
      const std::string index = name.substr(std::min(prefix.size(), name.size()));
      const bool is_compute = name.starts_with(prefix) && !index.empty() &&
                              index.find_first_not_of("0123456789") == std::string::npos;
      if (!is_compute) continue;
      nodes.push_back(look_at(folder / name, true, false));
      nodes.push_back(
          look_at(folder / std::string(prefix).append("_controlD").append(index), true, true));
    }
  }
}

void add_rdma(const fs::path& sysfs, const fs::path& dev, std::vector<node_fact>& nodes) {
  bool any = false;
  for (const auto& name : topo::class_devices("infiniband_verbs", sysfs / "class")) {
    const std::string device = first_line(sysfs / "class/infiniband_verbs" / name / "ibdev");
    if (device.empty() || topo::is_gaudi_port(device, sysfs / "class")) continue;
    any = true;
    nodes.push_back(look_at(dev / "infiniband" / name, false, true));
  }
  if (any) nodes.push_back(look_at(dev / "infiniband/rdma_cm", false, true));
}

}  // namespace

std::vector<node_fact> collect_nodes(const fs::path& sysfs, const fs::path& dev) {
  std::vector<node_fact> nodes;
  add_gaudis(sysfs, dev, nodes);
  add_rdma(sysfs, dev, nodes);
  return nodes;
}

bool is_allowed(const node_fact& node, const credentials& self) {
  if (self.overrides_modes) return true;
  const auto has = [&](mode_t both) { return (node.mode & both) == both; };
  if (node.owner == self.uid) return has(S_IRUSR | S_IWUSR);
  if (std::find(self.groups.begin(), self.groups.end(), node.group) != self.groups.end())
    return has(S_IRGRP | S_IWGRP);
  return has(S_IROTH | S_IWOTH);
}

}  // namespace gaudi::info
