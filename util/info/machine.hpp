// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report.hpp"

namespace gaudi::info {

/// Where the facts are; other folders in tests.
struct machine_roots {
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
  std::filesystem::path root = "/";  ///< of the rest: log files, marks of containers
  bool in_kubernetes = false;        ///< KUBERNETES_SERVICE_HOST is set
};

enum class container_kind { none, container, kubernetes };

/// Who this process is, as /proc/self/status tells it.
struct credentials {
  uid_t uid = 0;
  std::vector<gid_t> groups;      ///< the effective one and the supplementary ones
  bool overrides_modes = false;   ///< CAP_DAC_OVERRIDE
  bool locks_any_amount = false;  ///< CAP_IPC_LOCK: RLIMIT_MEMLOCK does not apply
};

/// A device node that the provider, or the NIC's library for it, has to open for reading and
/// writing.
struct node_fact {
  std::filesystem::path path;
  bool of_gaudi = false;  ///< else of an RDMA device
  bool present = false;
  mode_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;
  std::string group_name{};  ///< or its number
  unsigned major = 0;
  int open_error = 0;  ///< errno of trying; 0: opened, or not tried
};

/// A PCIe port on the way between a Gaudi and a NIC below one switch.
struct port_fact {
  std::string bus_id;
  bool readable = false;   ///< all of its configuration space
  bool redirects = false;  ///< ACS sends peer-to-peer traffic through the root complex
};

/// What the IOMMU does with a function's addresses.
struct iommu_fact {
  std::string bus_id;
  std::string mode;  ///< "identity", "DMA", "DMA-FQ", as the kernel names it; empty: no IOMMU
};

/// What surrounds the provider on this machine.
struct machine_fact {
  container_kind container = container_kind::none;
  credentials self;
  std::uint64_t locked_memory = 0;  ///< bytes, soft limit
  std::uint64_t open_files = 0;     ///< soft limit
  std::vector<node_fact> nodes;
  std::vector<port_fact> ports;
  std::vector<iommu_fact> iommu;
  bool has_rdma_devices = false;  ///< and some that are no Gaudi's own ports
  bool has_user_verbs = false;    ///< module ib_uverbs
  std::vector<std::string>
      denials;           ///< of SELinux or AppArmor, as the log tells them, oldest first
  bool selinux = false;  ///< enforcing
  std::string apparmor;  ///< profile that confines this process; empty: none
};

/// Looks; opens nothing but nodes whose opening has no effect. `r` has devices and NICs.
machine_fact collect_machine(const machine_roots& roots, const report& r);

}  // namespace gaudi::info
