// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mock_library.hpp"

namespace gaudi::test {

mock_library::mock_library() : mock_routes(*this) {}
mock_library::~mock_library() = default;

hl::functions mock_library::table() {
  return {
      .open = route<&mock_library::open>,
      .open_control = route<&mock_library::open_control>,
      .open_control_by_module_id = route<&mock_library::open_control_by_module_id>,
      .close = route<&mock_library::close>,
      .get_device_id_from_fd = route<&mock_library::get_device_id_from_fd>,
      .get_pci_bus_id_from_fd = route<&mock_library::get_pci_bus_id_from_fd>,
      .get_device_index_from_pci_bus_id = route<&mock_library::get_device_index_from_pci_bus_id>,
      .get_device_count = route<&mock_library::get_device_count>,
      .get_hw_ip_info = route<&mock_library::get_hw_ip_info>,
      .get_dram_usage = route<&mock_library::get_dram_usage>,
      .get_device_status_info = route<&mock_library::get_device_status_info>,
      .get_open_stats = route<&mock_library::get_open_stats>,
      .device_memory_alloc = route<&mock_library::device_memory_alloc>,
      .device_memory_free = route<&mock_library::device_memory_free>,
      .device_memory_map = route<&mock_library::device_memory_map>,
      .host_memory_map = route<&mock_library::host_memory_map>,
      .memory_unmap = route<&mock_library::memory_unmap>,
      .device_mapped_memory_export_dmabuf_fd = route<&mock_library::export_dmabuf>,
      .device_memory_export_dmabuf_fd = route<&mock_library::export_physical>,
      .request_command_buffer = route<&mock_library::request_command_buffer>,
      .destroy_command_buffer = route<&mock_library::destroy_command_buffer>,
      .command_submission = route<&mock_library::command_submission>,
      .wait_for_cs = route<&mock_library::wait_for_cs>,
      .cs_flush_pci_hbw_writes = route<&mock_library::cs_flush_pci_hbw_writes>};
}

}  // namespace gaudi::test
