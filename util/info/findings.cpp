// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nodes.hpp"

namespace gaudi::info {
namespace {

using lines = std::vector<std::string>;

// Below these something runs short in practice: a large eager window is pinned at start, and each
// peer and each exported allocation has a descriptor.
constexpr std::uint64_t enough_locked_memory = std::uint64_t{1} << 30;
constexpr std::uint64_t enough_open_files = 4096;
// RDMA's largest packet of 4096 bytes and its headers.
constexpr unsigned enough_mtu = 4200;

/// Collects what is found.
class judge_of {
 public:
  judge_of(const machine_fact& m, const report& r) : m_(m), r_(r) {}

  std::vector<finding> all() {
    driver();
    missing_nodes();
    forbidden_nodes();
    refused_nodes();
    denials();
    kernel();
    acs();
    iommu();
    limits();
    for (const nic_fact& nic : r_.nics) link(nic);
    for (const auto& [name, nearest] : r_.unknown_variables)
      add(severity::slows, "variable",
          fmt::format("{} is no parameter and is ignored; {} is the nearest.", name, nearest),
          {fmt::format("unset {}", name)});
    std::stable_sort(found_.begin(), found_.end(),
                     [](const finding& a, const finding& b) { return a.weight < b.weight; });
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool in(container_kind kind) const { return m_.container == kind; }

  void add(severity weight, const char* subject, std::string text, lines commands,
           area about = area::other) {
    found_.push_back({weight, subject, std::move(text), std::move(commands), about});
  }

  static area access_to(bool gaudi) { return gaudi ? area::gaudi_access : area::rdma_access; }

  void driver() {
    if (m_.has_rdma_devices && !m_.has_user_verbs)
      add(severity::stops, "RDMA modules",
          "The kernel has RDMA devices, but not the module by which programs use them (ib_uverbs).",
          {"sudo modprobe -a ib_uverbs rdma_ucm"});
  }

  void missing_nodes() {
    for (const bool gaudi : {true, false}) {
      const auto at = std::find_if(m_.nodes.begin(), m_.nodes.end(), [&](const node_fact& node) {
        return node.of_gaudi == gaudi && !node.present;
      });
      if (at != m_.nodes.end())
        add(severity::stops, gaudi ? "Gaudi's node" : "RDMA node",
            fmt::format("{} is missing, though the kernel shows the device.", at->path.string()),
            missing_remedy(gaudi), access_to(gaudi));
    }
  }

  [[nodiscard]] lines missing_remedy(bool gaudi) const {
    if (in(container_kind::kubernetes))
      return gaudi ? lines{"# in the pod's container, with Habana's device plugin:",
                           "resources: {limits: {habana.ai/gaudi: 1}}"}
                   : lines{"# in the pod's container, with an RDMA device plugin:",
                           "resources: {limits: {rdma/hca: 1}}"};
    if (in(container_kind::container))
      return {gaudi ? "docker run --device /dev/accel ..."
                    : "docker run --device /dev/infiniband ..."};
    return {"sudo udevadm trigger && sudo udevadm settle"};
  }

  void forbidden_nodes() {
    for (const bool gaudi : {true, false}) {
      const auto at = std::find_if(m_.nodes.begin(), m_.nodes.end(), [&](const node_fact& node) {
        return node.of_gaudi == gaudi && node.present &&
               (node.open_error == EACCES || !is_allowed(node, m_.self));
      });
      if (at == m_.nodes.end()) continue;
      const bool by_group = (at->mode & 060) == 060 && at->group != 0;
      add(severity::stops, gaudi ? "right to Gaudi" : "right to RDMA",
          fmt::format("This user may not read and write {} (mode {:o}, group {}).",
                      at->path.string(), at->mode & 0777U, at->group_name),
          forbidden_remedy(*at, by_group), access_to(gaudi));
    }
  }

  [[nodiscard]] lines forbidden_remedy(const node_fact& node, bool by_group) const {
    if (in(container_kind::kubernetes) && by_group)
      return {"# in the pod:",
              fmt::format("securityContext: {{supplementalGroups: [{}]}}", node.group)};
    if (in(container_kind::container) && by_group)
      return {fmt::format("docker run --group-add {} ...", node.group)};
    if (by_group)
      return {fmt::format("sudo usermod -aG {} $USER    # then log in anew", node.group_name)};
    return {fmt::format("sudo chmod 666 {}", node.path.string())};
  }

  /// The mode allows it, and yet it does not open: a device cgroup says EPERM.
  void refused_nodes() {
    for (const node_fact& node : m_.nodes) {
      if (!node.present || node.open_error != EPERM) continue;
      const lines remedy =
          in(container_kind::kubernetes)
              ? missing_remedy(node.of_gaudi)
              : lines{fmt::format("docker run --device-cgroup-rule 'c {}:* rw' ...", node.major)};
      add(severity::stops, "device cgroup",
          fmt::format("{} is there, but the device cgroup of this {} refuses it.",
                      node.path.string(), in(container_kind::none) ? "session" : "container"),
          remedy, access_to(node.of_gaudi));
      return;
    }
  }

  void denials() {
    if (m_.denials.empty()) return;
    const std::string& last = m_.denials.back();
    const bool selinux = last.find("avc:") != std::string::npos;
    const char* who = selinux ? "SELinux" : "AppArmor";
    add(severity::stops, who,
        fmt::format("{} has denied something that RDMA or a Gaudi needs; the last line: {}", who,
                    last.substr(0, 200)),
        denial_remedy(selinux));
  }

  [[nodiscard]] lines denial_remedy(bool selinux) const {
    if (selinux && !in(container_kind::none))
      return {"sudo setsebool -P container_use_devices on    # on the host"};
    if (selinux)
      return {"sudo ausearch -m avc -ts today | audit2allow -M gaudi", "sudo semodule -i gaudi.pp"};
    if (!in(container_kind::none)) return {"docker run --security-opt apparmor=unconfined ..."};
    return {m_.apparmor.empty() ? "sudo aa-status" : "sudo aa-complain " + m_.apparmor};
  }

  void kernel() {
    if (!m_.has_rdma_devices || !m_.has_user_verbs) return;
    if (r_.software.kernel_has_dmabuf_rdma == false)
      add(severity::stops, "kernel",
          fmt::format("The RDMA modules of kernel {} cannot register dma-bufs "
                      "(no ib_umem_dmabuf_get): device memory is staged.",
                      r_.software.kernel),
          {"grep ib_umem_dmabuf_get /proc/kallsyms    # Linux 5.12 and newer have it"});
    else if (!r_.software.kernel_has_dmabuf_rdma)
      add(severity::note, "kernel",
          "Whether the kernel registers dma-bufs cannot be seen: no right "
          "to /proc/kallsyms.",
          {"sudo grep ib_umem_dmabuf_get /proc/kallsyms"});
  }

  void acs() {
    lines commands;
    std::string ports;
    for (const port_fact& port : m_.ports) {
      if (!port.redirects) continue;
      ports += (ports.empty() ? "" : ", ") + port.bus_id;
      commands.push_back(fmt::format("sudo setpci -s {} ECAP_ACS+6.w=0000", port.bus_id));
    }
    if (!commands.empty())
      add(severity::slows, "ACS",
          fmt::format("Between a Gaudi and a NIC below one switch, ACS sends what they exchange "
                      "through the CPU: port {}. This is undone at each boot.",
                      ports),
          commands);
    const bool unread = std::any_of(m_.ports.begin(), m_.ports.end(),
                                    [](const port_fact& port) { return !port.readable; });
    if (unread)
      add(severity::note, "ACS", "Only root sees whether ACS is on between Gaudis and NICs.",
          {"sudo gaudi_info --doctor"});
  }

  void iommu() {
    const auto at = std::find_if(m_.iommu.begin(), m_.iommu.end(),
                                 [](const iommu_fact& one) { return one.mode.starts_with("DMA"); });
    if (at == m_.iommu.end()) return;
    add(severity::slows, "IOMMU",
        fmt::format("The IOMMU translates each access of {} (mode {}): peer-to-peer transfers are "
                    "slower, or refused.",
                    at->bus_id, at->mode),
        {"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub",
         "sudo update-grub && sudo reboot",
         "# RHEL: sudo grubby --update-kernel=ALL --args=iommu=pt && sudo reboot"});
  }

  void limits() {
    if (m_.locked_memory < enough_locked_memory && !m_.self.locks_any_amount)
      add(severity::slows, "locked memory",
          fmt::format("This user may lock {} KiB of memory; RDMA locks all host memory that it "
                      "reads and writes.",
                      m_.locked_memory / 1024),
          limit_remedy("memlock", "unlimited", "-1"));
    if (m_.open_files < enough_open_files)
      add(severity::slows, "open files",
          fmt::format("A process may have {} files open; each peer and each exported piece of "
                      "device memory is one.",
                      m_.open_files),
          limit_remedy("nofile", "65536", "65536"));
  }

  [[nodiscard]] lines limit_remedy(const char* what, const char* value, const char* number) const {
    if (in(container_kind::kubernetes)) {
      if (std::string_view(what) == "memlock")
        return {"# in the pod's container:", "securityContext: {capabilities: {add: [IPC_LOCK]}}"};
      return {"ulimit -n $(ulimit -Hn)"};
    }
    if (in(container_kind::container))
      return {fmt::format("docker run --ulimit {}={} ...", what, number)};
    return {fmt::format("echo '* - {} {}' | sudo tee /etc/security/limits.d/{}.conf", what, value,
                        what),
            "# then log in anew"};
  }

  void link(const nic_fact& nic) {
    if (nic.link != "ACTIVE") {
      const bool no_subnet = nic.layer == "InfiniBand" && nic.link == "INIT";
      add(severity::slows, "link",
          fmt::format("The port of {} is {}, not ACTIVE.", nic.name, nic.link),
          {no_subnet               ? "sudo systemctl start opensm    # or that of the fabric"
           : nic.interface.empty() ? fmt::format("rdma link show {}/1", nic.name)
                                   : fmt::format("sudo ip link set dev {} up", nic.interface)});
    } else if (nic.layer == "Ethernet" && nic.place.known() && nic.mtu != 0 &&
               nic.mtu < enough_mtu) {
      add(severity::slows, "MTU",
          fmt::format("{} ({}) has an MTU of {}: too small for RDMA's packets of 4096 bytes.",
                      nic.interface, nic.name, nic.mtu),
          {fmt::format("sudo ip link set dev {} mtu 9000    # and on switch and peers",
                       nic.interface)});
    }
  }

  const machine_fact& m_;
  const report& r_;
  std::vector<finding> found_;
};

}  // namespace

const char* text_of(severity weight) noexcept {
  switch (weight) {
    case severity::stops:
      return "stops";
    case severity::slows:
      return "slows";
    case severity::note:
      break;
  }
  return "note";
}

std::vector<finding> find_obstacles(const machine_fact& m, const report& r) {
  return judge_of(m, r).all();
}

}  // namespace gaudi::info
