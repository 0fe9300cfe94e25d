// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unknown_variables.hpp"
#include "copy/copy_table.hpp"
#include "proto/transfer/path_choice.hpp"
#include "reg/registration_failure.hpp"
#include "topo/pci_place.hpp"

namespace gaudi::info {

/// A process that has a device open for computing.
struct holder {
  int pid = 0;
  std::string command;   ///< its short name, as ps shows it, in printable ASCII
  bool synapse = false;  ///< it has libSynapse loaded: there the provider would be a guest
};

/// Whose a device is: it can be opened by one process at a time.
enum class owner_mode {
  owner,          ///< nobody's: the provider would open it and be its owner
  other_process,  ///< open in another process, and not to be had by the provider
  none,           ///< nobody can open it, or not now
};

/// A Gaudi as its control node shows it.
struct device_fact {
  int index = 0;
  std::string name;    ///< "Gaudi2", or the stand-in's "simulated Gaudi2"
  bool copies = true;  ///< its queues copy for applications, through libhl-thunk
  std::string bus_id;
  topo::pci_place place;
  std::uint32_t module_id = 0;
  std::uint64_t hbm_total = 0;  ///< bytes
  std::uint64_t hbm_free = 0;   ///< bytes
  std::string state;            ///< "free", "in use", "in reset", ..., or why it is not known
  owner_mode mode = owner_mode::none;
  std::vector<holder> holders{};  ///< of other_process, as far as this user may see them
};

/// An RDMA device as sysfs shows it.
struct nic_fact {
  std::string name;
  std::string driver;
  std::string link;   ///< of the first port: "ACTIVE", "DOWN", ...
  std::string rate;   ///< "100 Gb/sec (4X EDR)"
  std::string layer;  ///< "InfiniBand" or "Ethernet"
  topo::pci_place place;
  std::string interface {};  ///< network interface of the first port, where it has one
  unsigned mtu = 0;          ///< of that, bytes; 0: not known
  bool offered = false;      ///< libfabric has a FI_EP_MSG endpoint on it
};

/// The rails of an endpoint, where FI_GAUDI_RAILS asks for several.
struct rails_fact {
  std::string nic;                 ///< that the application chose: the core's domain
  std::vector<std::string> rails;  ///< interfaces or RDMA devices, that one first
  std::vector<std::string> left_out;
};

/// What trying to register a device's memory with a NIC came to.
struct probe_fact {
  std::size_t device = 0;  ///< place in report::devices
  std::size_t nic = 0;     ///< place in report::nics
  bool zero_copy = false;
  int code = 0;  ///< -FI_E* where it failed
  reg::registration_failure why{};
};

/// A device that could not be opened for the probe.
struct unprobed_fact {
  std::size_t device = 0;
  int code = 0;
};

/// How the provider would copy from and to a device that was opened for the probe.
struct copies_fact {
  std::size_t device = 0;
  copy::copy_table table;
};

/// A FI_GAUDI_* parameter.
struct parameter_fact {
  std::string variable;
  std::string value;
  bool given = false;  ///< by the environment; else the default
  bool valid = true;
};

struct software_fact {
  std::string libfabric;   ///< release that runs
  std::string core;        ///< what would carry the data: "verbs", "tcp", or empty
  bool core_reads = true;  ///< others' memory, as core::reads_safely says
  bool provider_found = false;
  std::string thunk;  ///< the stand-in's name, "installed", or empty: none
  std::string kernel;
  std::string gaudi_driver{};                  ///< release of habanalabs, empty: not told
  std::optional<bool> kernel_has_dmabuf_rdma;  ///< nothing: /proc/kallsyms cannot be read
  std::uint64_t open_files = 0;                ///< RLIMIT_NOFILE
  std::uint64_t locked_memory = 0;             ///< RLIMIT_MEMLOCK, bytes
};

/// How long messages would go between two kinds of memory.
struct message_fact {
  std::string from;
  std::string to;
  proto::path_choice chosen;
};

/// All that the tool found out.
struct report {
  std::vector<device_fact> devices;
  std::vector<nic_fact> nics;
  std::vector<std::string> gaudi_ports{};  ///< RDMA devices that are Gaudis' own, no NICs
  std::vector<rails_fact> rails{};
  software_fact software;
  std::vector<parameter_fact> parameters;
  std::vector<base::unknown_variable> unknown_variables{};
  bool probed = false;
  std::vector<probe_fact> probes;
  std::vector<unprobed_fact> unprobed;
  std::vector<copies_fact> copies;  ///< of probed devices that copy
  std::vector<message_fact> messages{};
};

}  // namespace gaudi::info
