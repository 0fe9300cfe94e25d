// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Each thing that gaudi_info --doctor finds, on a recorded server that has nothing else wrong.
#include "findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "../topo/recorded_sysfs.hpp"
#include "collect.hpp"
#include "nodes.hpp"
#include "print.hpp"
#include "verdict.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* first_gaudi = "0000:19:00.0";
constexpr const char* port_of_gaudi = "0000:17:00.0";
constexpr const char* port_of_nic = "0000:17:02.0";

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// A configuration space whose second extended capability is ACS with these control bits.
std::string config_with_acs(unsigned control) {
  std::string space(4096, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) space[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(0x100, 0x14820001);  // advanced error reporting; the next is at 0x148
  put(0x148, 0x0001000d);
  put(0x14c, control << 16 | 0x5f);
  return space;
}

/// Eight Gaudis, their nodes and NICs, and nothing in the way.
class server : public testing::Test {
 protected:
  server() : machine("four_switches"), roots{.sysfs = machine.root()} {
    roots.proc = machine.root() / "proc";
    roots.dev = machine.root() / "dev";
    roots.root = machine.root() / "root";
    for (int i = 0; i < 8; ++i) {
      write(node("accel" + std::to_string(i)), "");
      write(node("accel_controlD" + std::to_string(i)), "");
    }
    for (const auto& entry : fs::directory_iterator(machine.root() / "class/infiniband"))
      add_rdma(entry.path().filename().string());
    write(roots.dev / "infiniband/rdma_cm", "");
    for (const auto& entry : fs::directory_iterator(machine.root() / "bus/pci/devices"))
      write(entry.path() / "iommu_group/type", "identity\n");
    for (const char* port : {port_of_gaudi, port_of_nic}) set_acs(port, 0);
    status("0", "0000003fffffffff");
    r.software.kernel = "6.8.0";
    r.software.kernel_has_dmabuf_rdma = true;
  }

  [[nodiscard]] fs::path node(const std::string& name) const { return roots.dev / "accel" / name; }
  [[nodiscard]] fs::path pci(const std::string& bus_id) const {
    return machine.root() / "bus/pci/devices" / bus_id;
  }

  void add_rdma(const std::string& name) {
    const fs::path device = machine.root() / "class/infiniband" / name;
    const std::string number = std::to_string(uverbs_++);
    write(device / "ports/1/state", "4: ACTIVE\n");
    write(device / "ports/1/link_layer", "Ethernet\n");
    write(device / "device/net" / ("eth" + number) / "x", "");
    write(machine.root() / "class/net" / ("eth" + number) / "mtu", "9000\n");
    write(machine.root() / "class/infiniband_verbs" / ("uverbs" + number) / "ibdev", name + "\n");
    write(roots.dev / "infiniband" / ("uverbs" + number), "");
  }

  void set_acs(const std::string& port, unsigned control) {
    fs::create_directories(machine.root() / "ports" / port);
    if (!fs::exists(pci(port))) fs::create_symlink(machine.root() / "ports" / port, pci(port));
    write(pci(port) / "config", config_with_acs(control));
  }

  void status(const std::string& uid, const std::string& capabilities) {
    write(roots.proc / "self/status", "Name:\tx\nUid:\t" + uid + "\t" + uid + "\t" + uid + "\t" +
                                          uid +
                                          "\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000 "
                                          "1001 \nCapEff:\t" +
                                          capabilities + "\n");
  }

  /// What is found, with limits that are high enough unless a test lowers them.
  std::vector<finding> found() {
    r.nics = collect_nics(machine.root());
    r.devices = {{.index = 0,
                  .name = "Gaudi2",
                  .bus_id = first_gaudi,
                  .place = topo::place_of_function(first_gaudi, machine.root()),
                  .state = "free"}};
    machine_fact m = collect_machine(roots, r);
    m.locked_memory = locked_memory;
    m.open_files = open_files;
    // The ports that the tests say nothing of are as well.
    std::erase_if(m.ports, [](const port_fact& p) {
      return p.bus_id != port_of_gaudi && p.bus_id != port_of_nic;
    });
    return find_obstacles(m, r);
  }

  /// The only finding.
  finding one() {
    auto all = found();
    EXPECT_EQ(all.size(), 1U);
    if (all.size() != 1) {
      for (const auto& f : all) ADD_FAILURE() << f.subject << ": " << f.text;
      return {};
    }
    fits(all);
    return all.front();
  }

  /// In 80 columns, and with something to paste.
  static void fits(const std::vector<finding>& all) {
    testing::internal::CaptureStdout();
    print_verdict({}, all);
    std::fflush(stdout);
    std::istringstream lines(testing::internal::GetCapturedStdout());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    for (const auto& f : all) EXPECT_FALSE(f.commands.empty()) << f.subject;
  }

  topo::test::recorded_sysfs machine;
  machine_roots roots;
  report r;
  std::uint64_t locked_memory = UINT64_MAX;
  std::uint64_t open_files = 1 << 20;

 private:
  int uverbs_ = 0;
};

TEST_F(server, that_is_well_has_no_findings) {
  for (const auto& f : found()) ADD_FAILURE() << f.subject << ": " << f.text;
}

TEST_F(server, with_little_memory_to_lock) {
  status("1000", "0");
  for (const auto& entry : fs::recursive_directory_iterator(roots.dev))
    fs::permissions(entry.path(), fs::perms::all);
  locked_memory = 8 << 20;
  auto f = one();
  EXPECT_EQ(f.subject, "locked memory");
  EXPECT_THAT(f.text, HasSubstr("8192 KiB"));
  EXPECT_THAT(f.commands.front(), HasSubstr("memlock unlimited"));
  roots.in_kubernetes = true;
  EXPECT_THAT(one().commands.back(), HasSubstr("add: [IPC_LOCK]"));
  status("1000", "4000");  // CAP_IPC_LOCK: the limit does not apply
  EXPECT_TRUE(found().empty());
}

TEST_F(server, with_few_files_to_open) {
  open_files = 1024;
  EXPECT_EQ(one().subject, "open files");
  EXPECT_THAT(one().commands.front(), HasSubstr("nofile 65536"));
  write(roots.root / ".dockerenv", "");
  EXPECT_THAT(one().commands, ElementsAre("docker run --ulimit nofile=65536 ..."));
}

TEST_F(server, whose_iommu_translates) {
  write(pci(first_gaudi) / "iommu_group/type", "DMA-FQ\n");
  const auto f = one();
  EXPECT_EQ(f.subject, "IOMMU");
  EXPECT_EQ(f.weight, severity::slows);
  EXPECT_THAT(f.text, HasSubstr("0000:19:00.0 (mode DMA-FQ)"));
  EXPECT_THAT(f.commands.front(), HasSubstr("iommu=pt"));
}

TEST_F(server, whose_switch_redirects_by_acs) {
  set_acs(port_of_gaudi, 0x1d);  // as the kernel sets it
  set_acs(port_of_nic, 0x11);    // no redirection
  const auto f = one();
  EXPECT_EQ(f.subject, "ACS");
  EXPECT_THAT(f.commands, ElementsAre("sudo setpci -s 0000:17:00.0 ECAP_ACS+6.w=0000"));
}

TEST_F(server, whose_acs_is_for_root_to_see) {
  write(pci(port_of_nic) / "config", std::string(64, '\0'));
  const auto f = one();
  EXPECT_EQ(f.weight, severity::note);
  EXPECT_THAT(f.commands, ElementsAre("sudo gaudi_info --doctor"));
}

TEST_F(server, whose_configuration_space_leads_in_a_circle) {
  std::string space = config_with_acs(0);
  space[0x14b] = 0x10;  // the second capability's next one is the first
  space[0x148] = 1;
  write(pci(port_of_nic) / "config", space);
  EXPECT_TRUE(found().empty());
}

TEST_F(server, with_a_missing_node) {
  fs::remove(node("accel3"));
  EXPECT_EQ(one().subject, "Gaudi's node");
  EXPECT_THAT(one().text, HasSubstr("/accel/accel3 is missing"));
  EXPECT_EQ(one().about, area::gaudi_access);
  write(roots.root / "run/.containerenv", "");
  EXPECT_THAT(one().commands, ElementsAre("docker run --device /dev/accel ..."));
  roots.in_kubernetes = true;
  EXPECT_THAT(one().commands.back(), HasSubstr("habana.ai/gaudi: 1"));
  write(node("accel3"), "");
  fs::remove(roots.dev / "infiniband/rdma_cm");
  EXPECT_EQ(one().about, area::rdma_access);
  EXPECT_THAT(one().commands.back(), HasSubstr("rdma/hca: 1"));
}

TEST_F(server, with_a_node_of_another_group) {
  status("1000", "4000");
  for (const auto& entry : fs::recursive_directory_iterator(roots.dev))
    fs::permissions(entry.path(), fs::perms::all);
  ASSERT_EQ(::chown(node("accel0").c_str(), 0, 4242), 0) << "only root can make this fixture";
  fs::permissions(node("accel0"), fs::perms(0660));
  EXPECT_EQ(one().subject, "right to Gaudi");
  EXPECT_THAT(one().text, HasSubstr("accel0 (mode 660, group 4242)"));
  EXPECT_THAT(one().commands.front(), HasSubstr("usermod -aG 4242 $USER"));
  roots.in_kubernetes = true;
  EXPECT_THAT(one().commands.back(), HasSubstr("supplementalGroups: [4242]"));
  ASSERT_EQ(::chown(node("accel0").c_str(), 0, 1001), 0);  // one of the process's groups
  EXPECT_TRUE(found().empty());
}

TEST_F(server, whose_device_cgroup_refuses_a_node) {
  machine_fact m;
  m.container = container_kind::container;
  m.self.overrides_modes = true;
  m.nodes = {
      {.path = "/dev/infiniband/uverbs0", .present = true, .major = 231, .open_error = EPERM}};
  const auto all = find_obstacles(m, {});
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().subject, "device cgroup");
  EXPECT_THAT(all.front().commands,
              ElementsAre("docker run --device-cgroup-rule 'c 231:* rw' ..."));
  fits(all);
}

TEST_F(server, whose_rdma_modules_are_missing_or_old) {
  r.software.kernel_has_dmabuf_rdma = false;
  EXPECT_EQ(one().subject, "kernel");
  r.software.kernel_has_dmabuf_rdma.reset();
  EXPECT_EQ(one().weight, severity::note);
  fs::remove_all(machine.root() / "class/infiniband_verbs");
  EXPECT_EQ(one().subject, "RDMA modules");
  EXPECT_THAT(one().commands, ElementsAre("sudo modprobe -a ib_uverbs rdma_ucm"));
}

TEST_F(server, where_selinux_or_apparmor_denied_something) {
  const fs::path log = roots.root / "var/log/audit/audit.log";
  write(log, "type=AVC avc:  denied  { read } for comm=\"ls\" path=\"/srv/x\"\n");
  EXPECT_TRUE(found().empty());  // nothing of ours
  write(log,
        "type=AVC avc:  denied  { open } for comm=\"mpirun\" path=\"/dev/infiniband/uverbs0\"\n");
  EXPECT_EQ(one().subject, "SELinux");
  EXPECT_THAT(one().commands.back(), HasSubstr("semodule -i gaudi.pp"));
  roots.in_kubernetes = true;
  EXPECT_THAT(one().commands.front(), HasSubstr("setsebool -P container_use_devices on"));
  roots.in_kubernetes = false;
  fs::remove(log);
  write(roots.root / "var/log/kern.log",
        "kernel: audit: apparmor=\"DENIED\" operation=\"open\" profile=\"job\" "
        "name=\"/dev/accel/accel0\"\n");
  fs::create_directories(machine.root() / "kernel/security/apparmor");
  write(roots.proc / "self/attr/current", "job (enforce)\n");
  EXPECT_EQ(one().subject, "AppArmor");
  EXPECT_THAT(one().commands, ElementsAre("sudo aa-complain job"));
}

TEST_F(server, with_a_link_that_is_down_or_has_small_packets) {
  const fs::path port = machine.root() / "class/infiniband/mlx5_2/ports/1";
  const std::string interface = [&] {
    for (const auto& nic : collect_nics(machine.root()))
      if (nic.name == "mlx5_2") return nic.interface;
    return std::string();
  }();
  write(machine.root() / "class/net" / interface / "mtu", "1500\n");
  EXPECT_EQ(one().subject, "MTU");
  EXPECT_THAT(one().commands.front(), HasSubstr("sudo ip link set dev " + interface + " mtu 9000"));
  write(port / "state", "1: DOWN\n");
  EXPECT_EQ(one().subject, "link");
  EXPECT_THAT(one().commands, ElementsAre("sudo ip link set dev " + interface + " up"));
  write(port / "state", "2: INIT\n");
  write(port / "link_layer", "InfiniBand\n");
  EXPECT_THAT(one().commands.front(), HasSubstr("opensm"));
}

TEST_F(server, with_gaudis_own_ports_that_are_no_nics) {
  const fs::path port = machine.root() / "class/infiniband/hbl_0";
  fs::create_directories(port);
  fs::create_directory_symlink(pci(first_gaudi), port / "device");
  const auto before = found();
  EXPECT_TRUE(before.empty());
  for (const auto& nic : r.nics) EXPECT_NE(nic.name, "hbl_0");
  EXPECT_THAT(collect_gaudi_ports(machine.root()), ElementsAre("hbl_0"));
}

TEST_F(server, where_a_variable_is_misspelt) {
  r.unknown_variables = {{"FI_GAUDI_NICS", "FI_GAUDI_NIC"}};
  EXPECT_THAT(one().text, HasSubstr("FI_GAUDI_NIC is the nearest"));
  EXPECT_THAT(one().commands, ElementsAre("unset FI_GAUDI_NICS"));
}

TEST_F(server, tells_the_worst_first) {
  open_files = 10;
  fs::remove(node("accel0"));
  write(pci(port_of_nic) / "config", "");
  const auto all = found();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].weight, severity::stops);
  EXPECT_EQ(all[1].weight, severity::slows);
  EXPECT_EQ(all[2].weight, severity::note);
}

TEST(verdict, names_the_right_that_is_missing) {
  report r;
  r.software.provider_found = true;
  r.software.thunk = "installed";
  const std::vector<finding> findings{
      {severity::stops, "Gaudi's node", "It is missing.", {"mknod"}, area::gaudi_access}};
  EXPECT_EQ(judge(r).what, cause::no_device);
  const auto v = judge(r, findings);
  EXPECT_EQ(v.what, cause::no_right_to_device);
  EXPECT_EQ(v.finding, "It is missing.");
  EXPECT_THAT(v.commands, ElementsAre("mknod"));
}

}  // namespace
}  // namespace gaudi::info
