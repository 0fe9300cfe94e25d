// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/log.hpp"
#include "base/params.hpp"
#include "collect.hpp"
#include "core/get_info.hpp"
#include "device/device.hpp"
#include "device/device_list.hpp"
#include "file_line.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? names.release : "unknown";
}

/// Where the kernel can register dma-bufs with a NIC; HCL looks for the same symbol.
std::optional<bool> kernel_has_dmabuf_rdma() {
  std::ifstream symbols("/proc/kallsyms");
  std::string line;
  bool any = false;
  while (std::getline(symbols, line)) {
    any = true;
    if (line.find(" ib_umem_dmabuf_get") != std::string::npos) return true;
  }
  return any ? std::optional<bool>(false) : std::nullopt;
}

std::uint64_t limit_of(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  return ::getrlimit(which, &limit) == 0 ? limit.rlim_cur : 0;
}

/// The release of habanalabs; empty where it is not loaded, or does not tell.
std::string gaudi_driver(const fs::path& sysfs) {
  for (const char* kind : {"accel", "habanalabs"}) {
    for (const auto& name : topo::class_devices(kind, sysfs / "class"))
      for (const char* file : {"device/driver_ver", "driver_ver"})
        if (auto told = first_line(sysfs / "class" / kind / name / file); !told.empty())
          return told;
  }
  return first_line(sysfs / "module/habanalabs/version");
}

/// Whether libfabric finds libgaudi-fi.so and it offers something.
bool provider_found() {
  core::unique_info hints(fi_allocinfo());
  if (!hints) return false;
  hints->fabric_attr->prov_name = ::strdup("gaudi");
  fi_info* found = nullptr;
  const int ret = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found);
  const core::unique_info list(found);
  return ret == 0;
}

std::string core_in_use() {
  const auto& params = base::params::get();
  const auto found = core::get_info(
      {.nics = params.nics, .core = params.core, .rdma_present = !topo::rdma_devices().empty()});
  return found ? (*found)->fabric_attr->prov_name : "";
}

std::string library_text(const hl::thunk* thunk) {
  if (!thunk) return "";
  return thunk->simulated().empty() ? "installed" : "stand-in: " + thunk->simulated();
}

/// Whether the text is good for this parameter, whatever the others say.
bool is_valid(const char* name, const char* text) {
  return base::params::parse([&](const char* asked) {
           return std::strcmp(asked, name) == 0 ? text : nullptr;
         }).code() == 0;
}

}  // namespace

software_fact collect_software(const hl::thunk* thunk, const fs::path& sysfs) {
  const std::uint32_t version = fi_version();
  const std::string core = core_in_use();
  return {.libfabric = fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version)),
          .core = core,
          .core_reads = core::reads_safely(core == "verbs", version),
          .provider_found = provider_found(),
          .thunk = library_text(thunk),
          .kernel = kernel_release(),
          .gaudi_driver = gaudi_driver(sysfs),
          .kernel_has_dmabuf_rdma = kernel_has_dmabuf_rdma(),
          .open_files = limit_of(RLIMIT_NOFILE),
          .locked_memory = limit_of(RLIMIT_MEMLOCK)};
}

std::vector<parameter_fact> collect_parameters() {
  std::vector<parameter_fact> facts;
  for (const auto& spec : base::param_table) {
    char* text = nullptr;
    const bool given = fi_param_get_str(&base::provider(), spec.name, &text) == 0;
    facts.push_back({.variable = base::variable_name(spec),
                     .value = given ? text : spec.default_text,
                     .given = given,
                     .valid = !given || is_valid(spec.name, text)});
  }
  return facts;
}

void check_named_devices(const hl::thunk& thunk, std::vector<parameter_fact>& parameters) {
  for (parameter_fact& one : parameters) {
    if (one.variable != "FI_GAUDI_DEVICE" || !one.given) continue;
    const auto chosen = device::device_list::parse(one.value);
    one.valid = static_cast<bool>(chosen);
    if (!chosen) continue;
    for (const auto& which : chosen->listed)
      if (device::device::index_named(thunk, which).code() == -FI_ENODEV) one.valid = false;
  }
}

}  // namespace gaudi::info
