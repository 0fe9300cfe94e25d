// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include <string>
#include <vector>

#include "base/log.hpp"
#include "hl/or_no_memory.hpp"
#include "hl/resolver.hpp"
#include "hl/thunk.hpp"

namespace gaudi::hl {
namespace {

using base::error;
using base::result;

/// Opens the first library that can be; the loader's last message is left in `reason`.
void* open_first(const std::vector<std::string>& names, std::string& reason) {
  for (const auto& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (const char* text = dlerror()) reason = text;
  }
  return nullptr;
}

const char* resolve(void* library, functions& table) {
  resolver find(library);
  find.required(table.open, "hlthunk_open");
  find.required(table.open_control, "hlthunk_open_control");
  find.optional(table.open_control_by_module_id, "hlthunk_open_control_by_module_id");
  find.required(table.close, "hlthunk_close");
  find.required(table.get_device_id_from_fd, "hlthunk_get_device_id_from_fd");
  find.required(table.get_pci_bus_id_from_fd, "hlthunk_get_pci_bus_id_from_fd");
  find.required(table.get_device_index_from_pci_bus_id, "hlthunk_get_device_index_from_pci_bus_id");
  find.required(table.get_device_count, "hlthunk_get_device_count");
  find.required(table.get_hw_ip_info, "hlthunk_get_hw_ip_info");
  find.required(table.get_dram_usage, "hlthunk_get_dram_usage");
  find.required(table.get_device_status_info, "hlthunk_get_device_status_info");
  find.optional(table.get_open_stats, "hlthunk_get_open_stats");
  find.required(table.device_memory_alloc, "hlthunk_device_memory_alloc");
  find.required(table.device_memory_free, "hlthunk_device_memory_free");
  find.required(table.device_memory_map, "hlthunk_device_memory_map");
  find.required(table.host_memory_map, "hlthunk_host_memory_map");
  find.required(table.memory_unmap, "hlthunk_memory_unmap");
  find.optional(table.device_mapped_memory_export_dmabuf_fd,
                "hlthunk_device_mapped_memory_export_dmabuf_fd");
  find.optional(table.device_memory_export_dmabuf_fd, "hlthunk_device_memory_export_dmabuf_fd");
  find.optional(table.request_command_buffer, "hlthunk_request_command_buffer");
  find.optional(table.destroy_command_buffer, "hlthunk_destroy_command_buffer");
  find.required(table.command_submission, "hlthunk_command_submission");
  find.required(table.wait_for_cs, "hlthunk_wait_for_cs");
  find.optional(table.cs_flush_pci_hbw_writes, "hlthunk_cs_flush_pci_hbw_writes");
  find.optional(table.notifier_create, "hlthunk_notifier_create");
  find.optional(table.notifier_recv, "hlthunk_notifier_recv");
  return find.missing();
}

/// The stand-in library announces itself by one function that the vendor's does not have.
std::string description(void* library) {
  const auto describe = reinterpret_cast<const char* (*)()>(dlsym(library, "hlsim_description"));
  const char* text = describe != nullptr ? describe() : nullptr;
  return text != nullptr ? text : "";
}

result<std::shared_ptr<const thunk>> load_library(const std::string& path) {
  // A library that was named is the only one tried: falling back to another would hide the mistake.
  const std::vector<std::string> names =
      path.empty()
          ? std::vector<std::string>{"libhl-thunk.so", "/usr/lib/habanalabs/libhl-thunk.so"}
          : std::vector<std::string>{path};
  std::string reason;
  void* library = open_first(names, reason);
  if (library == nullptr) {
    GAUDI_WARN(
        CORE,
        "no libhl-thunk, so no Gaudi device memory: %s. Install habanalabs-thunk or name the "
        "library with FI_GAUDI_HLTHUNK.\n",
        reason.c_str());
    return error{-FI_ENOSYS};
  }
  functions table;
  if (const char* missing = resolve(library, table)) {
    GAUDI_WARN(CORE,
               "libhl-thunk (%s) has no %s, so no Gaudi device memory. Install a newer "
               "habanalabs-thunk or name another library with FI_GAUDI_HLTHUNK.\n",
               path.empty() ? names.front().c_str() : path.c_str(), missing);
    return error{-FI_ENOSYS};
  }
  std::string simulated = description(library);
  if (!simulated.empty()) GAUDI_INFO(CORE, "libhl-thunk is a stand-in: %s\n", simulated.c_str());
  return std::make_shared<const thunk>(table, std::move(simulated));
}

}  // namespace

result<std::shared_ptr<const thunk>> thunk::load(const std::string& path) {
  return or_no_memory([&] { return load_library(path); });
}

}  // namespace gaudi::hl
